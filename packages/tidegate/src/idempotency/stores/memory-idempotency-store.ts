/**
 * Idempotency keys in the memory of one process: for tests, and for services of a single process.
 * A restart forgets all keys.
 *
 * The store is bounded. If it is full, the records that expire first make room, but never one that
 * is running. A store that is full of running records refuses claims.
 */

import { type Clock, systemClock } from '../../clock.ts'
import { TidegateError } from '../../errors.ts'
import { checkOptions, checkWhole } from '../../options.ts'
import { AgeMap } from '../../stores/age-map.ts'
import type {
  Claim,
  ClaimResult,
  Completion,
  IdempotencyStore,
  KeyState,
  Release,
  Renewal,
} from './idempotency-store.ts'

export interface MemoryIdempotencyStoreOptions {
  /** The most keys. Default: 100,000. */
  readonly keysMax?: number
  /** The most bytes of all results together, two for each character. Default: 64 MB. */
  readonly bytesMax?: number
  /** For tests. Default: the system's clock. */
  readonly clock?: Clock
}

interface Record {
  readonly token: string
  readonly fingerprint: string
  readonly kind: 'running' | 'done' | 'free'
  readonly result: string
  /** The end of the lease; 0 if the outcome is unknown. */
  readonly leaseEndMs: number
  readonly expiresMs: number
}

/** About 30 MB without results. */
const KEYS_MAX_DEFAULT = 100_000

const BYTES_MAX_DEFAULT = 64 * 1_024 ** 2

/** Records of each kind that a claim checks, so that expired ones are forgotten without a timer. */
const SWEPT = 4

export function memoryIdempotencyStore(
  options: MemoryIdempotencyStoreOptions = {},
): IdempotencyStore {
  const path = 'memoryIdempotencyStore'
  checkOptions(options, path, ['keysMax', 'bytesMax', 'clock'])
  const { keysMax = KEYS_MAX_DEFAULT, bytesMax = BYTES_MAX_DEFAULT, clock = systemClock } = options
  checkWhole(keysMax, `${path}.keysMax`, 1, 2 ** 24)
  checkWhole(bytesMax, `${path}.bytesMax`, 1_024, Number.MAX_SAFE_INTEGER)
  return new MemoryIdempotencyStore(keysMax, bytesMax, clock)
}

class MemoryIdempotencyStore implements IdempotencyStore {
  /** The oldest of each map expires first. Only those that are not running make room. */
  readonly #running = new AgeMap<Record>()
  readonly #ended = new AgeMap<Record>()
  readonly #keysMax: number
  readonly #bytesMax: number
  readonly #clock: Clock
  #bytes = 0

  constructor(keysMax: number, bytesMax: number, clock: Clock) {
    this.#keysMax = keysMax
    this.#bytesMax = bytesMax
    this.#clock = clock
  }

  claim(key: string, { token, fingerprint, leaseMs, ttlMs, takesOver }: Claim): ClaimResult {
    const nowMs = this.#clock.now()
    this.#sweep(nowMs)
    const record = this.#find(key, nowMs)
    const take = (isRetry: boolean): ClaimResult => {
      if (token === '') return { state: 'free' }
      const times = { leaseEndMs: nowMs + leaseMs, expiresMs: nowMs + ttlMs }
      this.#write(key, { kind: 'running', token, fingerprint, result: '', ...times })
      return { state: 'owned', isRetry }
    }
    if (record === undefined) return take(false)
    if (record.fingerprint !== fingerprint) return { state: 'other-request' }
    if (record.kind === 'done') return { state: 'done', result: record.result }
    if (record.kind === 'free') return take(true)
    const leaseLeftMs = record.leaseEndMs - nowMs
    if (leaseLeftMs > 0) return { state: 'running', leaseLeftMs }
    return takesOver ? take(true) : { state: 'unknown' }
  }

  complete(key: string, { token, fingerprint, result, ttlMs }: Completion): boolean {
    const nowMs = this.#clock.now()
    const record = this.#find(key, nowMs)
    if (record !== undefined && record.token !== token) return false
    if (record?.kind === 'done') return true
    const times = { leaseEndMs: 0, expiresMs: nowMs + ttlMs }
    this.#write(key, { kind: 'done', token, fingerprint, result, ...times })
    return true
  }

  renew(key: string, { token, leaseMs, ttlMs }: Renewal): boolean {
    const nowMs = this.#clock.now()
    const record = this.#owned(key, token, nowMs)
    if (record === undefined) return false
    this.#write(key, { ...record, leaseEndMs: nowMs + leaseMs, expiresMs: nowMs + ttlMs })
    return true
  }

  release(key: string, { token, remains, ttlMs }: Release): boolean {
    const nowMs = this.#clock.now()
    const record = this.#owned(key, token, nowMs)
    if (record === undefined) return false
    const left = { ...record, leaseEndMs: 0, expiresMs: nowMs + ttlMs }
    if (remains === 'unused') this.#delete(key)
    else this.#write(key, remains === 'retry' ? { ...left, kind: 'free' } : left)
    return true
  }

  look(key: string): KeyState | undefined {
    const nowMs = this.#clock.now()
    const record = this.#find(key, nowMs)
    if (record === undefined) return undefined
    const { kind, leaseEndMs, expiresMs, result } = record
    const leaseLeftMs = kind === 'running' ? Math.max(0, leaseEndMs - nowMs) : 0
    return {
      state: keyState(kind, leaseLeftMs),
      leaseLeftMs,
      expiresInMs: expiresMs - nowMs,
      resultBytes: new TextEncoder().encode(result).length,
    }
  }

  forget(key: string): boolean {
    const isKnown = this.#find(key, this.#clock.now()) !== undefined
    this.#delete(key)
    return isKnown
  }

  #owned(key: string, token: string, nowMs: number): Record | undefined {
    const record = this.#find(key, nowMs)
    return record?.kind === 'running' && record.token === token ? record : undefined
  }

  #find(key: string, nowMs: number): Record | undefined {
    const record = this.#running.get(key) ?? this.#ended.get(key)
    if (record === undefined || record.expiresMs > nowMs) return record
    this.#delete(key)
    return undefined
  }

  #write(key: string, record: Record): void {
    this.#delete(key)
    this.#makeRoom(record.result.length * 2)
    const records = record.kind === 'running' ? this.#running : this.#ended
    records.set(key, record)
    this.#bytes += record.result.length * 2
  }

  #delete(key: string): void {
    // Only the result of a record that has ended takes room.
    this.#bytes -= (this.#ended.get(key)?.result.length ?? 0) * 2
    if (!this.#ended.delete(key)) this.#running.delete(key)
  }

  #sweep(nowMs: number): void {
    for (const records of [this.#ended, this.#running]) {
      for (let swept = 0; swept < SWEPT; swept++) {
        const key = records.oldest()
        if (key === undefined || (records.get(key)?.expiresMs ?? 0) > nowMs) break
        this.#delete(key)
      }
    }
  }

  #makeRoom(bytes: number): void {
    const size = () => this.#running.size + this.#ended.size
    while (size() >= this.#keysMax || this.#bytes + bytes > this.#bytesMax) {
      const key = this.#ended.oldest()
      if (key === undefined) break
      this.#delete(key)
    }
    if (size() < this.#keysMax) return
    throw new TidegateError('overloaded', 'the store of idempotency keys is full of running keys')
  }
}

function keyState(kind: Record['kind'], leaseLeftMs: number): KeyState['state'] {
  if (kind === 'done') return 'done'
  if (kind === 'free') return 'released'
  return leaseLeftMs > 0 ? 'running' : 'lost'
}
