/**
 * Idempotency keys in Redis: on one server, with Sentinel, or on Cluster. A call is one step of a
 * script, so a claim takes one round trip; time is the server's. Calls of one moment travel in one
 * command (key-queue.ts). On Cluster, records share buckets for that, as counters do.
 *
 * Redis must not evict records (`maxmemory-policy noeviction`): a record that is evicted is a key
 * that can be used again.
 */

import type { Clock } from '../../clock.ts'
import { invalid } from '../../errors.ts'
import type { Observer } from '../../observer.ts'
import { checkOneOf, checkOptions, checkWhole } from '../../options.ts'
import { type BreakerOptions, parseGuardedOptions } from '../../stores/guarded/guarded-options.ts'
import { BUCKETS_DEFAULT, bucketTags } from '../../stores/redis/buckets.ts'
import { type RedisClient, redisCaller } from '../../stores/redis/client.ts'
import { slotOf } from '../../stores/redis/cluster-slot.ts'
import { newPipeline } from '../../stores/redis/pipeline/pipeline.ts'
import { bucketTag } from '../../stores/redis/redis-key.ts'
import { type Durability, durabilities } from '../../stores/redis/redis-store.ts'
import { ServerTime } from '../../stores/redis/server-time.ts'
import type {
  Claim,
  ClaimResult,
  Completion,
  IdempotencyStore,
  KeyState,
  Release,
  Renewal,
} from './idempotency-store.ts'
import { type GuardedCall, KeyGuard } from './key-guard.ts'
import { type KeyCall, type KeyCallKind, type KeyCallShape, KeyQueue } from './key-queue.ts'

export interface RedisIdempotencyStoreOptions {
  /** The prefix of all keys. Default: `tgi`. */
  readonly prefix?: string
  /**
   * How long the server may be silent after a command. Default: three times the measured round
   * trip, from 15 to 100 ms.
   */
  readonly deadlineMs?: number
  /** How long the first call waits for the server to answer. Default: 1,000. */
  readonly connectMs?: number
  /**
   * `replicated` waits after every call until a replica has it; a call that no replica confirms
   * fails. Default: `memory`.
   */
  readonly durability?: Durability
  /** When the circuit breaker opens, as for `createLimiter`. Each master has its own. */
  readonly breaker?: BreakerOptions
  /** Called with the events of the circuit breaker. */
  readonly observer?: Observer
  /** For tests: time instead of the server's. */
  readonly clock?: Clock
}

const optionNames = [
  ...['prefix', 'deadlineMs', 'connectMs', 'durability', 'breaker', 'observer', 'clock'],
]

/** The name of the shard in events, so that it is not mistaken for one of the counters. */
const SHARD = 'keys'

const PREFIX_DEFAULT = 'tgi'
const PREFIX = /^[A-Za-z0-9_.:-]{1,32}$/
const DURATION_MS_MAX = 60_000
const CONNECT_MS_DEFAULT = 1_000

/** So that the answer still comes within the 15 ms of a decision. */
const REPLICAS_TIMEOUT_MS = 10

export function redisIdempotencyStore(
  client: RedisClient,
  options: RedisIdempotencyStoreOptions = {},
): IdempotencyStore {
  const path = 'redisIdempotencyStore'
  checkOptions(options, path, optionNames)
  const { prefix = PREFIX_DEFAULT, deadlineMs, connectMs = CONNECT_MS_DEFAULT } = options
  const { durability = 'memory' } = options
  if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
    const allowed = '1 to 32 of the characters A-Z a-z 0-9 _ . : -'
    throw invalid('invalid-option', { path: `${path}.prefix`, value: prefix, allowed })
  }
  if (deadlineMs !== undefined) checkWhole(deadlineMs, `${path}.deadlineMs`, 1, DURATION_MS_MAX)
  checkWhole(connectMs, `${path}.connectMs`, 1, DURATION_MS_MAX)
  checkOneOf(durability, `${path}.durability`, durabilities)
  const time = new ServerTime(options.clock)
  const replication =
    durability === 'replicated' ? { replicas: 1, timeoutMs: REPLICAS_TIMEOUT_MS } : undefined
  const caller = redisCaller(client)
  if (replication !== undefined && !caller.canWait) {
    const allowed = 'memory, unless the client has pipelined(commands)'
    throw invalid('invalid-option', { path: `${path}.durability`, value: durability, allowed })
  }
  const pipeline = newPipeline({
    ...{ caller, replication, time, prefix, probes: true },
    deadlineMs: deadlineMs ?? CONNECT_MS_DEFAULT,
  }).bounded({ deadlineMs, connectMs, queueMs: CONNECT_MS_DEFAULT, queueMax: 1 })
  const tags = caller.isCluster ? bucketTags(BUCKETS_DEFAULT) : []
  const shardOf = (key: string) => {
    const node = caller.nodeOfSlot?.(slotOf(bucketTag(key, tags)))
    return node === undefined ? SHARD : `${SHARD} ${node}`
  }
  const guard = new KeyGuard({ ...guardOf(options, path), shardOf })
  return new RedisIdempotencyStore(prefix, tags, guard, new KeyQueue(pipeline, time))
}

function guardOf({ breaker, observer }: RedisIdempotencyStoreOptions, path: string) {
  const given = { ...(breaker !== undefined && { breaker }), ...(observer && { observer }) }
  return parseGuardedOptions(given, path)
}

/** Shapes of calls that are remembered. One policy has about seven. */
const SHAPES_MAX = 32

/** Replies of key-records.lua to a claim. */
const FREE = 0
const OWNED = 1
const OWNED_AGAIN = 2
const OTHER_REQUEST = 5
const RUNNING = 10

class RedisIdempotencyStore implements IdempotencyStore {
  readonly #prefix: string
  /** The hash tags of the buckets; none on a single server. */
  readonly #tags: readonly string[]
  readonly #guard: KeyGuard
  readonly #queue: KeyQueue
  readonly #shapes: KeyCallShape[] = []

  constructor(prefix: string, tags: readonly string[], guard: KeyGuard, queue: KeyQueue) {
    this.#prefix = prefix
    this.#tags = tags
    this.#guard = guard
    this.#queue = queue
  }

  claim(key: string, claim: Claim): Promise<ClaimResult> {
    const { token, fingerprint, leaseMs, ttlMs, takesOver } = claim
    const shape = this.#shape('claim', leaseMs, ttlMs, takesOver ? '1' : '0')
    return this.#call(key, shape, token + fingerprint, claimResult)
  }

  complete(key: string, { token, fingerprint, result, ttlMs }: Completion): Promise<boolean> {
    const shape = this.#shape('complete', 0, ttlMs, '')
    return this.#call(key, shape, token + fingerprint + result, isOne)
  }

  renew(key: string, { token, leaseMs, ttlMs }: Renewal): Promise<boolean> {
    return this.#call(key, this.#shape('renew', leaseMs, ttlMs, ''), token, isOne)
  }

  release(key: string, { token, remains, ttlMs }: Release): Promise<boolean> {
    return this.#call(key, this.#shape('release', 0, ttlMs, remains), token, isOne)
  }

  look(key: string): Promise<KeyState | undefined> {
    return this.#call(key, this.#shape('look', 0, 0, ''), '', keyState)
  }

  forget(key: string): Promise<boolean> {
    return this.#call(key, this.#shape('forget', 0, 0, ''), '', isOne)
  }

  /** Returns one object for all calls of a shape, by which a command groups them. */
  #shape(kind: KeyCallKind, leaseMs: number, ttlMs: number, option: string): KeyCallShape {
    for (const one of this.#shapes) {
      const isSame = one.kind === kind && one.option === option
      if (isSame && one.ttlMs === ttlMs && one.leaseMs === leaseMs) return one
    }
    const shape = { kind, leaseMs, ttlMs, option }
    if (this.#shapes.length < SHAPES_MAX) this.#shapes.push(shape)
    return shape
  }

  #call<T>(key: string, shape: KeyCallShape, text: string, read: Read<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const guarded = this.#guard.begin(key)
      const tag = bucketTag(key, this.#tags)
      const name = this.#prefix + tag + key
      this.#queue.push(tag, new PendingCall(name, shape, text, { guarded, read, resolve, reject }))
    })
  }
}

interface Pending<T> {
  readonly guarded: GuardedCall
  readonly read: Read<T>
  resolve(value: T): void
  reject(error: unknown): void
}

class PendingCall<T> implements KeyCall {
  readonly key: string
  readonly shape: KeyCallShape
  readonly text: string
  readonly #pending: Pending<T>

  constructor(key: string, shape: KeyCallShape, text: string, pending: Pending<T>) {
    this.key = key
    this.shape = shape
    this.text = text
    this.#pending = pending
  }

  onReply(reply: unknown): void {
    const { guarded, read, resolve } = this.#pending
    guarded.succeed()
    resolve(read(reply))
  }

  onError(error: unknown): void {
    this.#pending.guarded.fail(error)
    this.#pending.reject(error)
  }
}

type Read<T> = (reply: unknown) => T

function claimResult(reply: unknown): ClaimResult {
  if (typeof reply === 'string') return { state: 'done', result: reply }
  const number = Number(reply)
  if (number === OWNED || number === OWNED_AGAIN) {
    return { state: 'owned', isRetry: number === OWNED_AGAIN }
  }
  if (number >= RUNNING) return { state: 'running', leaseLeftMs: number - RUNNING }
  if (number === FREE) return { state: 'free' }
  return { state: number === OTHER_REQUEST ? 'other-request' : 'unknown' }
}

function isOne(reply: unknown): boolean {
  return reply === 1
}

function keyState(reply: unknown): KeyState | undefined {
  if (!Array.isArray(reply)) return undefined
  const [kind, leaseLeftMs, expiresInMs, resultBytes] = reply as [string, ...number[]]
  const states = { D: 'done', F: 'released', R: leaseLeftMs === 0 ? 'lost' : 'running' } as const
  const state = states[kind as keyof typeof states]
  return {
    ...{ state, leaseLeftMs: leaseLeftMs ?? 0 },
    ...{ expiresInMs: expiresInMs ?? 0, resultBytes: resultBytes ?? 0 },
  }
}
