/**
 * Times of spans: the wall clock with the resolution of the steady one. Without it, a span starts
 * on a whole millisecond, and a command of half a millisecond seems to begin before its parent.
 */

import { steadyClock, systemClock } from '../clock.ts'

/** Beyond this, the wall clock was set. It is read in whole milliseconds, so it is 1 off anyway. */
const DRIFT_MS_MAX = 5

export class SpanClock {
  #offsetMs = Number.NaN

  /** In milliseconds since 1970. */
  now(): number {
    const steadyMs = steadyClock.now()
    const offsetMs = systemClock.now() - steadyMs
    // Also true at the first call.
    if (!(Math.abs(offsetMs - this.#offsetMs) <= DRIFT_MS_MAX)) this.#offsetMs = offsetMs
    return steadyMs + this.#offsetMs
  }
}
