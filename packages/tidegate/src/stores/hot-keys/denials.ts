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
import { AgeMap } from '../age-map.ts'

/** A call: the limits of a group in their order, and the units of each. */
export interface Question {
  readonly limits: readonly Limit[]
  readonly cost: number
}

/** Called with the number of calls that were denied without the store. */
export type OnCalls = (calls: number, nowMs: number) => void

interface Denial extends Question {
  readonly decisions: readonly Decision[]
  readonly untilMs: number
  readonly answeredMs: number
  readonly onCalls: OnCalls
  /** Denied without the store, and not reported yet. */
  calls: number
}

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
  readonly #denials = new AgeMap<Denial>()

  get size(): number {
    return this.#denials.size
  }

  find(key: string, { limits, cost }: Question, nowMs: number): readonly Decision[] | undefined {
    const denial = this.#denials.get(key)
    if (denial === undefined || cost < denial.cost) return undefined
    if (!this.#holds(key, denial, areSame(limits, denial.limits), nowMs)) return undefined
    const passedMs = Math.floor(nowMs - denial.answeredMs)
    return denial.decisions.map((decision) => later(decision, passedMs))
  }

  /** Like `find`, for a group of one, which most are. */
  findOne(key: string, limit: Limit, cost: number, nowMs: number): Decision | undefined {
    const denial = this.#denials.get(key)
    if (denial === undefined || cost < denial.cost) return undefined
    if (!this.#holds(key, denial, isSame(limit, denial.limits[0]), nowMs)) return undefined
    return later(denial.decisions[0] as Decision, Math.floor(nowMs - denial.answeredMs))
  }

  add(
    key: string,
    question: Question,
    decisions: readonly Decision[],
    times: Times,
    onCalls: OnCalls,
  ): void {
    const waitMs = Math.max(...decisions.map(({ retryAfterMs }) => retryAfterMs))
    const isSure = decisions.every(({ degraded }) => degraded === null)
    if (waitMs === 0 || !isSure || question.cost === 0) return
    // All but the first denial of a burst are known already.
    if (this.#isKnown(key, question, times.nowMs)) return
    this.#sweep(times.nowMs)
    if (this.#denials.size >= DENIALS_MAX && !this.#denials.has(key)) return
    const known = this.#denials.get(key)
    if (known !== undefined) this.#end(key, known, times.nowMs)
    const untilMs = times.sentMs + Math.min(waitMs, DENIAL_MS_MAX)
    const { limits, cost } = question
    const answeredMs = times.nowMs
    this.#denials.set(key, { limits, cost, decisions, untilMs, answeredMs, onCalls, calls: 0 })
  }

  /** Reports the calls so far. */
  reportCalls(nowMs: number): void {
    for (const denial of this.#denials.values()) report(denial, nowMs)
  }

  forget(key: string): void {
    this.#denials.delete(key)
  }

  clear(): void {
    this.#denials.clear()
  }

  #isKnown(key: string, { limits, cost }: Question, nowMs: number): boolean {
    const denial = this.#denials.get(key)
    if (denial === undefined || nowMs >= denial.untilMs || cost < denial.cost) return false
    return areSame(limits, denial.limits)
  }

  #holds(key: string, denial: Denial, isForSame: boolean, nowMs: number): boolean {
    if (nowMs < denial.untilMs && isForSame) {
      denial.calls++
      return true
    }
    this.#end(key, denial, nowMs)
    return false
  }

  #sweep(nowMs: number): void {
    for (let swept = 0; swept < SWEEP_COUNT; swept++) {
      const key = this.#denials.oldest()
      const denial = key === undefined ? undefined : this.#denials.get(key)
      if (key === undefined || denial === undefined || denial.untilMs > nowMs) return
      this.#end(key, denial, nowMs)
    }
  }

  #end(key: string, denial: Denial, nowMs: number): void {
    this.#denials.delete(key)
    report(denial, nowMs)
  }
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
