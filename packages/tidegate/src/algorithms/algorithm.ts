/**
 * The contract of an algorithm: a pure function from a stored state, a cost and the time to a
 * decision and the state to store. No clock, no I/O, no mutation that a caller can see.
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

export interface ChargeResult<State> {
  /**
   * The state to store. After a denial it differs from the state before only if that came from the
   * future (the clock jumped back) and was brought to the present.
   */
  readonly state: State | undefined
  readonly decision: Decision
}

export interface Algorithm<Params, State> {
  /**
   * Decides about `cost` whole units at `now` (whole milliseconds), and charges them if allowed. A
   * cost of 0 is always allowed, and returns the units that are left. `held` units are set aside by
   * open reservations and are not available.
   */
  charge(
    state: State | undefined,
    cost: number,
    now: number,
    params: Params,
    held: number,
  ): ChargeResult<State>

  /**
   * Adds `units` without a decision (an overdraft of a commit), or takes them back if negative (a
   * refund), never below nothing used.
   */
  adjust(state: State | undefined, units: number, now: number, params: Params): State | undefined
}
