/**
 * Waits for the first answer of the servers. Until then calls wait, because a client that is still
 * connecting is not an outage. The probes are peeks that change nothing: one that any server may
 * answer, and then one for each master of a cluster, whose connections open one by one.
 */

import { tokenBucketParams } from '../../../algorithms/token-bucket.ts'
import { steadyClock } from '../../../clock.ts'
import { TidegateError } from '../../../errors.ts'
import type { RedisCaller } from '../client.ts'
import { slotOf } from '../cluster-slot.ts'
import type { ServerTime } from '../server-time.ts'
import { writeGeneralCall } from './batch.ts'
import type { RoundTrip } from './round-trip.ts'
import { ScriptRunner } from './script-runner.ts'

/** Pause between two probes: some clients refuse immediately while they connect. */
const RETRY_MS = 20

/** Slots of a cluster: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec */
const SLOTS = 16_384

/** Keys to try until each master has one; 64 masters take about 300. */
const KEYS_MAX = 4_096

const limit = tokenBucketParams(1, 1_000, 1)

export class Readiness {
  readonly #caller: RedisCaller
  readonly #roundTrip: RoundTrip
  readonly #time: ServerTime
  readonly #prefix: string
  #hasAnswered = false
  #isSettled = false
  #firstUse: Promise<void> | undefined

  constructor(caller: RedisCaller, roundTrip: RoundTrip, time: ServerTime, prefix: string) {
    this.#caller = caller
    this.#roundTrip = roundTrip
    this.#time = time
    this.#prefix = prefix
  }

  /** True once the store has answered, or was waited for in vain. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Like `wait`, but only the first call ever waits. Later failures are outages. */
  firstUse(timeoutMs: number): Promise<void> {
    this.#firstUse ??= this.wait(timeoutMs)
    return this.#firstUse
  }

  /** Resolves when the servers have answered; rejects with the last error after that time. */
  async wait(timeoutMs: number): Promise<void> {
    try {
      await this.#untilAnswered(timeoutMs)
    } finally {
      this.#isSettled = true
    }
  }

  async #untilAnswered(timeoutMs: number): Promise<void> {
    let leftMs = timeoutMs
    while (!this.#hasAnswered) {
      const startMs = steadyClock.now()
      try {
        await this.#probe(`${this.#prefix}ready`, leftMs)
        await this.#probeMasters(leftMs - (steadyClock.now() - startMs))
        // The first probe took the time to connect as well; this one measures the round trip.
        await this.#probe(`${this.#prefix}ready`, leftMs)
        this.#hasAnswered = true
      } catch (error) {
        // A server that refuses has answered; calls report the reason.
        if (error instanceof TidegateError && error.code === 'store-misconfigured') return
        leftMs -= steadyClock.now() - startMs + RETRY_MS
        if (leftMs <= 0) throw error
        await pause(RETRY_MS)
      }
    }
  }

  /** A master that does not answer must not hold up the others. */
  async #probeMasters(leftMs: number): Promise<void> {
    const { nodeOfSlot } = this.#caller
    if (nodeOfSlot === undefined || leftMs < 1) return
    const missing = new Set<string>()
    for (let slot = 0; slot < SLOTS; slot++) missing.add(nodeOfSlot(slot) ?? '')
    missing.delete('')
    const keys: string[] = []
    for (let at = 0; at < KEYS_MAX && missing.size > 0; at++) {
      const key = `${this.#prefix}ready${at}`
      if (missing.delete(nodeOfSlot(slotOf(key)) ?? '')) keys.push(key)
    }
    await Promise.allSettled(keys.map((key) => this.#probe(key, leftMs)))
  }

  #probe(key: string, timeoutMs: number): Promise<void> {
    const deadlineMs = Math.max(1, timeoutMs)
    const options = { deadlineMs, roundTrip: this.#roundTrip, replication: undefined }
    const runner = new ScriptRunner(this.#caller, options)
    return new Promise((resolve, reject) => {
      const ignore = () => undefined
      const group = [{ name: 'ready', limit, key, cost: 0 }]
      const peek = { keys: [key], group, mode: 'peek', resolve: ignore, reject: ignore } as const
      const onReply = () => resolve()
      runner.run(writeGeneralCall([peek], this.#time), { onReply, onError: reject })
    })
  }
}

function pause(waitMs: number): Promise<void> {
  return new Promise((resolve) => void steadyClock.schedule(resolve, waitMs))
}
