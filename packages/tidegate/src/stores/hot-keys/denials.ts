/**
 * Denials that still hold: they are repeated until their retry time, without the store. Only a
 * refund, a reset or a raised limit can end them earlier. Those of this process take effect
 * immediately, those of others after at most `DENIAL_MS_MAX`.
 *
 * A denial holds from the time of the call, so that it never outlasts the store's. The retry time
 * of a client counts from the answer, so that a client that waits this long is admitted.
 *
 * The number of repeated denials is reported at the end of each, because an exhausted key can be
 * hot.
 */

import type { Limit } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'

/** A call: the limits of a group in their order, and the units of each. */
export interface Question {
  readonly limits: readonly Limit[]
  readonly cost: number
}

/** Called with the number of calls that were denied without the store. */
export type OnCalls = (calls: number, nowMs: number) => void

interface Denial extends Question {
  readonly place: DenialsByKey
  readonly key: string
  readonly decisions: readonly Decision[]
  readonly untilMs: number
  readonly answeredMs: number
  readonly onCalls: OnCalls
  /** Denied without the store, and not reported yet. */
  calls: number
  older: Denial | undefined
  younger: Denial | undefined
}

/**
 * Denials of one limit. Each limit has its own map, so that a look-up needs no text that has both
 * the limit and the key. Only `Denials` changes it.
 */
export type DenialsByKey = Map<string, Denial>

/** When the store was called, and when it answered. */
export interface Times {
  readonly sentMs: number
  readonly nowMs: number
}

/** How long a refund or a raised limit on another node may go unnoticed. */
const DENIAL_MS_MAX = 1_000

/** Denials that are remembered; if all of them still hold, further keys go to the store. */
const DENIALS_MAX = 16_384

/** Older calls do not count for the current rate. */
const CALLS_AGE_MS_MAX = 1_000

/** Expired denials that a new one removes, so that they are removed faster than added. */
const SWEEP_COUNT = 2

export class Denials {
  /** The ends of a list in the order of their age. */
  #oldest: Denial | undefined
  #youngest: Denial | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  find(
    place: DenialsByKey,
    key: string,
    { limits, cost }: Question,
    nowMs: number,
  ): readonly Decision[] | undefined {
    const denial = place.get(key)
    if (denial === undefined || cost < denial.cost) return undefined
    if (!this.#holds(denial, areSame(limits, denial.limits), nowMs)) return undefined
    const passedMs = Math.floor(nowMs - denial.answeredMs)
    return denial.decisions.map((decision) => later(decision, passedMs))
  }

  /** Like `find`, for a group of one, which most are. */
  findOne(
    place: DenialsByKey,
    key: string,
    limit: Limit,
    cost: number,
    nowMs: number,
  ): Decision | undefined {
    const denial = place.get(key)
    if (denial === undefined || cost < denial.cost) return undefined
    if (!this.#holds(denial, isSame(limit, denial.limits[0]), nowMs)) return undefined
    return later(denial.decisions[0] as Decision, Math.floor(nowMs - denial.answeredMs))
  }

  add(
    place: DenialsByKey,
    key: string,
    question: Question,
    decisions: readonly Decision[],
    times: Times,
    onCalls: OnCalls,
  ): void {
    const waitMs = Math.max(...decisions.map(({ retryAfterMs }) => retryAfterMs))
    const isSure = decisions.every(({ degraded }) => degraded === null)
    if (waitMs === 0 || !isSure || question.cost === 0) return
    const known = place.get(key)
    // All but the first denial of a burst are known already.
    if (known !== undefined && isCovered(known, question, times.nowMs)) return
    this.#sweep(times.nowMs)
    if (known !== undefined) this.#end(known, times.nowMs)
    else if (this.#size >= DENIALS_MAX) return
    const untilMs = times.sentMs + Math.min(waitMs, DENIAL_MS_MAX)
    const { limits, cost } = question
    const answeredMs = times.nowMs
    const older = this.#youngest
    const denied = { limits, cost, decisions, untilMs, answeredMs, onCalls, calls: 0 }
    const denial: Denial = { place, key, ...denied, older, younger: undefined }
    if (older === undefined) this.#oldest = denial
    else older.younger = denial
    this.#youngest = denial
    this.#size++
    place.set(key, denial)
  }

  /** Reports the calls so far. */
  reportCalls(nowMs: number): void {
    for (let one = this.#oldest; one !== undefined; one = one.younger) report(one, nowMs)
  }

  forget(place: DenialsByKey, key: string): void {
    const denial = place.get(key)
    if (denial !== undefined) this.#delete(denial)
  }

  clear(): void {
    while (this.#oldest !== undefined) this.#delete(this.#oldest)
  }

  #holds(denial: Denial, isForSame: boolean, nowMs: number): boolean {
    if (nowMs < denial.untilMs && isForSame) {
      denial.calls++
      return true
    }
    this.#end(denial, nowMs)
    return false
  }

  #sweep(nowMs: number): void {
    for (let swept = 0; swept < SWEEP_COUNT; swept++) {
      if (this.#oldest === undefined || this.#oldest.untilMs > nowMs) return
      this.#end(this.#oldest, nowMs)
    }
  }

  #end(denial: Denial, nowMs: number): void {
    this.#delete(denial)
    report(denial, nowMs)
  }

  /** Does nothing if it was deleted before. */
  #delete(denial: Denial): void {
    const { place, key, older, younger } = denial
    if (place.get(key) !== denial) return
    place.delete(key)
    this.#size--
    if (older === undefined) this.#oldest = younger
    else older.younger = younger
    if (younger === undefined) this.#youngest = older
    else younger.older = older
  }
}

/** True if the denial still holds for such a call. */
function isCovered(denial: Denial, { limits, cost }: Question, nowMs: number): boolean {
  return nowMs < denial.untilMs && cost >= denial.cost && areSame(limits, denial.limits)
}

function report(denial: Denial, nowMs: number): void {
  const { calls, untilMs } = denial
  denial.calls = 0
  if (calls > 0 && nowMs - untilMs < CALLS_AGE_MS_MAX) denial.onCalls(calls, nowMs)
}

function later(decision: Decision, passedMs: number): Decision {
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs, granted, degraded } = decision
  // Field by field, which is faster than a copy with two changes.
  return {
    allowed,
    limit,
    remaining,
    retryAfterMs: allowed ? 0 : Math.max(1, retryAfterMs - passedMs),
    resetAfterMs: Math.max(0, resetAfterMs - passedMs),
    granted,
    degraded,
    source: 'cache',
  }
}

function areSame(some: readonly Limit[], others: readonly Limit[]): boolean {
  return some.length === others.length && some.every((limit, at) => isSame(limit, others[at]))
}

/** True for equal limits, also if a function returns a new object each time. */
export function isSame(one: Limit, other: Limit | undefined): boolean {
  if (one === other) return true
  const names = Object.keys(one) as (keyof Limit)[]
  return other !== undefined && names.every((name) => one[name] === other[name])
}
