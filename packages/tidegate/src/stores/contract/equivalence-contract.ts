/**
 * Runs random histories through the memory store and through Redis, and compares: every decision,
 * and what lies in Redis with what the pure functions hold.
 *
 * Histories run side by side in a cohort, which shares a clock and a store, so that their steps
 * travel together in one command. The clock is not the server's: a counter that the server would
 * really forget during a run is forgotten on both sides instead, after its decision was compared.
 */

import type { Cluster, Redis } from 'ioredis'
import { expect } from 'vitest'
import { expireHolds, type Holds } from '../../algorithms/holds.ts'
import { algorithmNamed } from '../../algorithms/limit.ts'
import { type ManualClock, manualClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { adjusted, decideGroup, peekGroup, settled, type Usage } from '../memory/decide.ts'
import { type MemoryStore, memoryStore } from '../memory/memory-store.ts'
import { bucketTags } from '../redis/buckets.ts'
import { RedisKeys } from '../redis/redis-key.ts'
import { redisStore } from '../redis/redis-store.ts'
import type { Adjustment, Charge, ChargeMode, Counter, Store } from '../store.ts'
import { expectedForm, storedForm } from './stored-form-contract.ts'

export type Operation =
  | GroupOperation
  /** One plain charge, several times in one tick. */
  | { readonly kind: 'burst'; readonly charge: Charge; readonly times: number }
  | { readonly kind: 'reset'; readonly group: readonly Counter[] }
  /** All charges or all adjustments, one after the other in one tick. */
  | { readonly kind: 'several'; readonly operations: readonly GroupOperation[] }

export type GroupOperation =
  | { readonly kind: 'charge'; readonly group: readonly Charge[]; readonly mode: ChargeMode }
  | { readonly kind: 'adjust'; readonly group: readonly Adjustment[] }

export interface Cohort {
  readonly startMs: number
  /** How the clock moves before each step; backwards where negative. */
  readonly moves: readonly number[]
  /** For each history, an operation per step. */
  readonly histories: readonly (readonly Operation[])[]
}

/** Longer than a cohort takes, so that no key expires while it runs. */
const LASTING_MS = 10_000

/** The two clocks are read at slightly different moments and count whole milliseconds. */
const TICK_MS = 2

const LIFETIME_MS_MAX = 400 * 86_400_000

/** A machine that is busy must not look like a server that is down. */
const TIMEOUT_MS = 60_000

const INSPECTED_EVERY = 4

const PREFIX = 'tg'

/** A counter as it must be kept. */
interface Kept {
  readonly counter: Counter
  readonly state: object | undefined
  readonly holds: Holds
  /** When nothing is used any more, so that a store may have forgotten it. */
  readonly forgetAt: number
  /** Between which moments of this process it must expire. */
  readonly expiresFrom: number
  readonly expiresUntil: number
}

/** On a cluster, all keys are in one bucket, and `client` is connected to its master. */
export async function runCohort(client: Redis, cohort: Cohort, cluster?: Cluster): Promise<void> {
  await client.flushall()
  const clock = manualClock(cohort.startMs)
  const options = { clock, prefix: PREFIX, timeoutMs: TIMEOUT_MS, buckets: 1 }
  const redis = redisStore(cluster ?? client, options)
  const model = new Model(clock, cluster === undefined ? [] : bucketTags(1))
  for (const [at, moveMs] of cohort.moves.entries()) {
    clock.jump(moveMs)
    await model.expire(client)
    const operations = cohort.histories.flatMap((history) => history[at] ?? [])
    model.sentAt = performance.now()
    const replies = await Promise.all(operations.map((operation) => perform(redis, operation)))
    model.repliedAt = performance.now()
    for (const [index, operation] of operations.entries()) {
      const isOrdered = operation.kind !== 'burst' || model.isPlain(operation.charge)
      compare(operation, replies[index] ?? [], model.perform(operation), isOrdered)
    }
    await model.settle(client)
    const isLast = at === cohort.moves.length - 1
    if (isLast || at % INSPECTED_EVERY === 0) await inspect(client, model)
  }
}

async function perform(store: Store, operation: Operation): Promise<readonly Decision[]> {
  switch (operation.kind) {
    case 'charge':
      return store.charge(operation.group, operation.mode)
    case 'burst': {
      const { charge, times } = operation
      const each = Array.from({ length: times }, () => store.charge([charge], 'all'))
      return (await Promise.all(each)).flat()
    }
    case 'adjust':
      return store.adjust(operation.group)
    case 'reset':
      await store.reset(operation.group)
      return []
    case 'several': {
      const { operations } = operation
      return (await Promise.all(operations.map((one) => perform(store, one)))).flat()
    }
  }
}

function compare(
  operation: Operation,
  actual: readonly Decision[],
  expected: readonly Decision[],
  isOrdered: boolean,
): void {
  const context = () => `after ${JSON.stringify(operation)}`
  if (operation.kind !== 'burst') {
    const known = operation.kind === 'several' ? actual.slice(0, expected.length) : actual
    if (!isSame(known, expected)) expect(known, context()).toEqual(expected)
    return
  }
  // They may travel in several commands, and those in one tell the reset time after the last. One
  // that travels alone and is left to the general script comes after the others.
  const resets = new Set(expected.map(({ resetAfterMs }) => resetAfterMs))
  for (const { resetAfterMs } of actual) expect(resets, context()).toContain(resetAfterMs)
  const rest = (all: readonly Decision[]) => {
    const decisions = all.map((one) => ({ ...one, resetAfterMs: 0 }))
    return isOrdered
      ? decisions
      : decisions.sort((a, b) => b.remaining - a.remaining || b.granted - a.granted)
  }
  expect(rest(actual), context()).toEqual(rest(expected))
}

/** A hundred times faster than `expect`, which is left to explain the difference. */
function isSame(actual: readonly Decision[], expected: readonly Decision[]): boolean {
  return (
    actual.length === expected.length &&
    actual.every((one, at) => {
      const other = expected[at]
      return (
        one.allowed === other?.allowed &&
        one.limit === other.limit &&
        one.remaining === other.remaining &&
        one.retryAfterMs === other.retryAfterMs &&
        one.resetAfterMs === other.resetAfterMs &&
        one.granted === other.granted &&
        one.degraded === other.degraded
      )
    })
  )
}

/** The pure functions with what they hold, beside the memory store, which does not show it. */
class Model {
  readonly clock: ManualClock
  readonly memory: MemoryStore
  readonly kept = new Map<string, Kept>()
  /** Counters that were written or reset in this step and are empty since. */
  readonly emptied = new Set<string>()
  /** Counters of which it is not known in this step what the server did. */
  readonly unknown = new Map<string, Counter>()
  readonly #keys: RedisKeys
  /** Between these, the server has done what this step asked for. */
  sentAt = 0
  repliedAt = 0

  constructor(clock: ManualClock, tags: readonly string[]) {
    this.clock = clock
    this.#keys = new RedisKeys(PREFIX, tags)
    this.memory = memoryStore({ clock })
  }

  perform(operation: Operation): readonly Decision[] {
    switch (operation.kind) {
      case 'charge':
        return this.#charge(operation.group, operation.mode)
      case 'burst':
        return Array.from({ length: operation.times }, () =>
          this.#charge([operation.charge], 'all'),
        ).flat()
      case 'adjust':
        return this.#adjust(operation.group)
      case 'reset':
        for (const counter of operation.group) this.#empty(counter)
        return []
      case 'several':
        return this.#several(operation.operations)
    }
  }

  keyOf({ name, limit, key }: Counter): string {
    return this.#keys.of(name, limit.algorithm, key)
  }

  /** Whether it has neither holds nor a state from the future. */
  isPlain(counter: Counter): boolean {
    const { state, holds } = this.kept.get(this.keyOf(counter)) ?? { state: {}, holds: [] }
    return (
      holds.length === 0 && !(state && 'time' in state && Number(state.time) > this.clock.now())
    )
  }

  /** Time has passed: forgets what either store may have forgotten. */
  async expire(client: Redis): Promise<void> {
    const now = this.clock.now()
    await this.#forget(client, ({ forgetAt }) => forgetAt <= now)
  }

  /** A step is over: what is empty must be gone, and what would be gone soon is forgotten. */
  async settle(client: Redis): Promise<void> {
    if (this.unknown.size > 0) await client.del(...this.unknown.keys())
    for (const counter of this.unknown.values()) this.#empty(counter)
    if (this.emptied.size > 0) expect(await client.exists(...this.emptied), 'emptied').toBe(0)
    this.emptied.clear()
    this.unknown.clear()
    const lastsUntil = this.repliedAt + LASTING_MS
    await this.#forget(client, ({ expiresFrom }) => expiresFrom < lastsUntil)
  }

  async #forget(client: Redis, isPassing: (kept: Kept) => boolean): Promise<void> {
    const passing = [...this.kept].filter(([, kept]) => isPassing(kept))
    if (passing.length === 0) return
    await client.del(...passing.map(([key]) => key))
    for (const [key, { counter }] of passing) {
      this.memory.reset([counter])
      this.kept.delete(key)
    }
  }

  /**
   * What of several is known: where the server may have forgotten a counter in between, the rest is
   * forgotten.
   */
  #several(operations: readonly GroupOperation[]): readonly Decision[] {
    const decisions: Decision[] = []
    const isPassing = (counter: Counter) => {
      const kept = this.kept.get(this.keyOf(counter))
      return kept !== undefined && kept.expiresFrom < this.repliedAt + LASTING_MS
    }
    for (const [at, operation] of operations.entries()) {
      if (operation.group.some(isPassing)) {
        for (const counter of operations.slice(at).flatMap(({ group }) => [...group])) {
          this.unknown.set(this.keyOf(counter), counter)
        }
        break
      }
      decisions.push(...this.perform(operation))
    }
    return decisions
  }

  #charge(group: readonly Charge[], mode: ChargeMode): readonly Decision[] {
    const now = this.clock.now()
    const decisions = this.memory.charge(group, mode)
    const usages = group.map((charge) => settled(this.#usage(charge, now), charge, now))
    if (mode === 'peek') {
      expect(decisions).toEqual(peekGroup(group, usages, now))
      return decisions
    }
    const outcomes = decideGroup(group, usages, mode, now)
    for (const [at, { usage, decision }] of outcomes.entries()) {
      const charge = group[at] as Charge
      this.#keep(charge, usage, decision.resetAfterMs, charge.settles !== undefined)
    }
    return this.#agreed(decisions, outcomes)
  }

  #adjust(group: readonly Adjustment[]): readonly Decision[] {
    const now = this.clock.now()
    const decisions = this.memory.adjust(group)
    const outcomes = group.map((adjustment) => {
      const { usage, decision } = adjusted(this.#usage(adjustment, now), adjustment, now)
      this.#keep(adjustment, usage, decision.resetAfterMs, true)
      return { decision }
    })
    return this.#agreed(decisions, outcomes)
  }

  #agreed(decisions: readonly Decision[], outcomes: readonly { readonly decision: Decision }[]) {
    const own = outcomes.map(({ decision }) => decision)
    if (!isSame(decisions, own)) expect(decisions, 'memory store').toEqual(own)
    return decisions
  }

  #usage(counter: Counter, now: number): Usage {
    const { limit } = counter
    const kept = this.kept.get(this.keyOf(counter))
    const algorithm = algorithmNamed(limit.algorithm)
    const present = expireHolds(algorithm, kept?.state, kept?.holds ?? [], now, limit)
    return { algorithm, limit, ...present }
  }

  /** What was not changed is not written, unless it lasts longer under the limit of now. */
  #keep(counter: Counter, { state, holds }: Usage, resetAfterMs: number, isWritten: boolean) {
    const key = this.keyOf(counter)
    const before = this.kept.get(key)
    const hasSameHolds = holds === before?.holds || (holds.length === 0 && !before?.holds.length)
    const isChanged = isWritten || state !== before?.state || !hasSameHolds
    if (!isChanged && before === undefined) return
    if (isChanged && resetAfterMs === 0) return this.#empty(counter)
    const ttlMs = Math.min(resetAfterMs, LIFETIME_MS_MAX)
    let [expiresFrom, expiresUntil] = [this.sentAt + ttlMs, this.repliedAt + ttlMs]
    if (!isChanged && before !== undefined) {
      const isLonger = resetAfterMs !== Infinity
      expiresFrom = isLonger ? Math.max(before.expiresFrom, expiresFrom) : before.expiresFrom
      expiresUntil = isLonger ? Math.max(before.expiresUntil, expiresUntil) : before.expiresUntil
    }
    const forgetAt = this.clock.now() + resetAfterMs
    this.kept.set(key, { counter, state, holds, forgetAt, expiresFrom, expiresUntil })
    this.emptied.delete(key)
  }

  #empty(counter: Counter): void {
    const key = this.keyOf(counter)
    this.memory.reset([counter])
    this.kept.delete(key)
    this.emptied.add(key)
  }
}

/** Everything that Redis has, and nothing else, is what the model keeps. */
async function inspect(client: Redis, model: Model): Promise<void> {
  const sentAt = performance.now()
  const pipeline = client.pipeline().dbsize()
  for (const [key, { counter, holds }] of model.kept) {
    pipeline.pttl(key)
    if (counter.limit.algorithm === 'slidingLog') pipeline.lrangeBuffer(key, 0, -1)
    else if (holds.length > 0) pipeline.zrangeBuffer(key, '0', '-1', 'WITHSCORES')
    else pipeline.getBuffer(key)
  }
  const replies = (await pipeline.exec())?.map(([error, reply]) => error ?? reply) ?? []
  const repliedAt = performance.now()
  expect(replies[0], 'number of keys').toBe(model.kept.size)
  let at = 1
  for (const kept of model.kept.values()) {
    const ttlMs = replies[at] as number
    const context = () => `of ${JSON.stringify(kept)}`
    const ttlMin = Math.floor(kept.expiresFrom - repliedAt) - TICK_MS
    const ttlMax = Math.ceil(kept.expiresUntil - sentAt) + TICK_MS
    const isExact = ttlMin <= ttlMs && ttlMs <= ttlMax
    if (!isExact) expect(ttlMs, `expiry ${context()}`).toBe(`${ttlMin} to ${ttlMax}`)
    const { algorithm } = kept.counter.limit
    const expected = expectedForm(algorithm, kept.state, kept.holds)
    expect(storedForm(algorithm, replies[at + 1]), `state ${context()}`).toEqual(expected)
    at += 2
  }
}
