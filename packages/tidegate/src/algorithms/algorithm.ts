/**
 * The contract of an algorithm: a pure function from what is stored, what is asked and the time to
 * what is answered and what is to be stored. No clock, no I/O, no mutation that a caller can see.
 *
 * Invariant: after a charge, the state stops mattering exactly `resetAfterMs` later, so that a
 * store may forget it at `now + resetAfterMs` and an absent state means that nothing is used.
 */

import type { Decision } from '../decision.ts'

export const algorithmNames = [
  'tokenBucket',
  'slidingWindow',
  'slidingLog',
  'fixedWindow',
  'concurrency',
] as const

export type AlgorithmName = (typeof algorithmNames)[number]

export interface Judgement<State> {
  /**
   * What to store. A denied request is not in it; it differs from the state before only where that
   * came from the future (the clock jumped back) and was brought to the present.
   */
  readonly state: State | undefined
  readonly decision: Decision
}

export interface Algorithm<Params, State> {
  /**
   * Judges and charges `cost` whole units at `now` (whole milliseconds). A cost of 0 asks for
   * nothing, is always allowed, and tells what is left. `held` units are set aside by open
   * reservations and cannot be had.
   */
  charge(
    state: State | undefined,
    cost: number,
    now: number,
    params: Params,
    held: number,
  ): Judgement<State>

  /**
   * Adds `units` without asking (an overdraft of a commit), or takes them back where negative (a
   * refund), never below nothing used.
   */
  adjust(state: State | undefined, units: number, now: number, params: Params): State | undefined
}
