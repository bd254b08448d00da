/** Replays a trace through a limiter in memory, in virtual time, and compares it with oracles. */

import { type Clock, createLimiter, type Limit, slidingWindow } from 'tidegate'
import { type Oracle, type Rule, trailingCount } from './oracles.ts'
import type { Trace } from './trace.ts'

export interface Replayed {
  readonly decisions: number
  readonly admitted: number
  /** Errors against the definition of the algorithm. */
  readonly own: { wronglyAdmitted: number; wronglyRefused: number; wrongRemaining: number }
  /** Errors against the true count of admitted units within the trailing period. */
  readonly truth: { wronglyAdmitted: number; wronglyRefused: number }
  /** The mean number of free units at a wrong refusal. */
  readonly roomWhenRefused: number
  /** The largest number of units admitted within any trailing period. */
  readonly most: number
  /** The mean of |counted − true| / true, over the decisions with units in the period. */
  readonly rateError: number
}

/** A fixed time, so that window boundaries do not depend on the day of the run. */
const START_MS = 1_700_000_000_000

export async function replay(
  trace: Trace,
  rule: Rule,
  limit: Limit,
  oracleOf: (rule: Rule) => Oracle,
  pause: () => Promise<unknown>,
): Promise<Replayed> {
  const clock = virtualClock()
  const limiter = createLimiter({ limit, clock })
  const keys = keysOf(trace, () => ({
    oracle: oracleOf(rule),
    admitted: trailingCount(rule.perMs),
  }))
  const own = { wronglyAdmitted: 0, wronglyRefused: 0, wrongRemaining: 0 }
  const truth = { wronglyAdmitted: 0, wronglyRefused: 0 }
  const errors = meanOf()
  const room = meanOf()
  let [admitted, most] = [0, 0]
  for (let at = 0; at < trace.length; at++) {
    if (at % PAUSE_EVERY === 0) await pause()
    const nowMs = clock.moveTo(START_MS + (trace.timesMs[at] as number))
    const key = keys[trace.keys[at] as number] as (typeof keys)[number]
    const before = key.admitted.at(nowMs)
    const { allowed, remaining } = limiter.checkSync(key.name)
    const expected = key.oracle.check(nowMs)
    if (allowed && !expected.isAllowed) own.wronglyAdmitted++
    if (!allowed && expected.isAllowed) own.wronglyRefused++
    if (remaining !== expected.remaining) own.wrongRemaining++
    if (allowed && before >= rule.limit) truth.wronglyAdmitted++
    if (!allowed && before < rule.limit) {
      truth.wronglyRefused++
      room.add(rule.limit - before)
    }
    if (allowed) {
      admitted++
      key.admitted.add(nowMs)
    }
    const inPeriod = allowed ? before + 1 : before
    if (inPeriod > most) most = inPeriod
    if (inPeriod > 0) errors.add(Math.abs(rule.limit - remaining - inPeriod) / inPeriod)
  }
  await limiter.close()
  const decisions = trace.length
  const means = { roomWhenRefused: room.mean(), rateError: errors.mean() }
  return { decisions, admitted, own, truth, most, ...means }
}

export interface CountedAll {
  readonly decisions: number
  /** Counted below the threshold but above it in truth; and the reverse. */
  readonly wronglyAdmitted: number
  readonly wronglyRefused: number
  readonly rateError: number
}

/** A request costs a thousand units, so that the rest gives the count to a thousandth. */
const UNITS_PER_REQUEST = 1_000

/** Never reached, so that every request is counted. */
const LIMIT_OUT_OF_REACH = 100_000_000_000

/**
 * The sliding window as a counter of all requests, not only of admitted ones, with the limit as a
 * threshold: this is how Cloudflare measures it.
 */
export async function countAll(
  trace: Trace,
  { limit, perMs }: Rule,
  pause: () => Promise<unknown>,
): Promise<CountedAll> {
  const clock = virtualClock()
  const limiter = createLimiter({
    limit: slidingWindow({ limit: LIMIT_OUT_OF_REACH, per: `${perMs}ms` }),
    clock,
  })
  const keys = keysOf(trace, () => ({ asked: trailingCount(perMs) }))
  const errors = meanOf()
  let [wronglyAdmitted, wronglyRefused] = [0, 0]
  for (let at = 0; at < trace.length; at++) {
    if (at % PAUSE_EVERY === 0) await pause()
    const nowMs = clock.moveTo(START_MS + (trace.timesMs[at] as number))
    const key = keys[trace.keys[at] as number] as (typeof keys)[number]
    key.asked.add(nowMs)
    const real = key.asked.at(nowMs)
    const { remaining } = limiter.checkSync(key.name, { cost: UNITS_PER_REQUEST })
    const counted = (LIMIT_OUT_OF_REACH - remaining) / UNITS_PER_REQUEST
    errors.add(Math.abs(counted - real) / real)
    if (counted <= limit && real > limit) wronglyAdmitted++
    if (counted > limit && real <= limit) wronglyRefused++
  }
  await limiter.close()
  return { decisions: trace.length, wronglyAdmitted, wronglyRefused, rateError: errors.mean() }
}

/** Decisions between two pauses, in which signals and the progress line are handled. */
const PAUSE_EVERY = 500_000

function virtualClock(): Clock & { moveTo(ms: number): number } {
  let nowMs = 0
  return {
    now: () => nowMs,
    schedule: () => () => undefined,
    moveTo: (ms) => {
      nowMs = ms
      return ms
    },
  }
}

function keysOf<Kept extends object>(trace: Trace, make: () => Kept) {
  const most = trace.keys.reduce((highest, key) => Math.max(highest, key), 0)
  return Array.from({ length: most + 1 }, (_, rank) => ({ name: `key ${rank}`, ...make() }))
}

function meanOf(): { add(value: number): void; mean(): number } {
  let [sum, count] = [0, 0]
  return {
    add(value) {
      sum += value
      count++
    },
    mean: () => (count === 0 ? 0 : sum / count),
  }
}
