/** What the tests of all algorithms share: a table of requests in time, and exact waiting. */

import { expect } from 'vitest'
import type { Algorithm } from './algorithm.ts'

/** at, cost → allowed, remaining, retryAfterMs, resetAfterMs */
export type Row = readonly [number, number, boolean, number, number, number]

/** Plays the requests of a table one after the other from an empty state. */
export function runTable<Params, State>(
  algorithm: Algorithm<Params, State>,
  params: Params,
  rows: readonly Row[],
): State | undefined {
  let state: State | undefined
  for (const [at, cost, allowed, remaining, retryAfterMs, resetAfterMs] of rows) {
    const judged = algorithm.charge(state, cost, at, params, 0)
    const expected = { allowed, remaining, retryAfterMs, resetAfterMs, granted: allowed ? cost : 0 }
    expect(judged.decision, `at ${at} ms, cost ${cost}`).toMatchObject(expected)
    state = judged.state
  }
  return state
}

/** Waiting the retry time admits, 1 ms less does not; the same for the reset and nothing used. */
export function untilAdmitted<Params, State>(
  algorithm: Algorithm<Params, State>,
  state: State | undefined,
  cost: number,
  now: number,
  params: Params,
): void {
  const charge = (units: number, at: number) =>
    algorithm.charge(state, units, at, params, 0).decision
  const { allowed, limit, retryAfterMs } = charge(cost, now)
  if (allowed) {
    expect(retryAfterMs).toBe(0)
  } else if (cost > limit) {
    expect(retryAfterMs).toBe(Infinity)
  } else {
    expect(charge(cost, now + retryAfterMs).allowed).toBe(true)
    expect(charge(cost, now + retryAfterMs - 1).allowed).toBe(false)
  }
  const { resetAfterMs } = charge(0, now)
  expect(charge(0, now + resetAfterMs)).toMatchObject({ remaining: limit, resetAfterMs: 0 })
  if (resetAfterMs > 0) expect(charge(0, now + resetAfterMs - 1).resetAfterMs).toBe(1)
}
