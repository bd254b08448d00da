/**
 * The round trip to the server, and the deadline that follows from it.
 *
 * The round trip is the shortest of the last one to two seconds: longer ones are due to load, which
 * is not distance. A reply after the deadline counts as well, so that the deadline follows a server
 * that is farther away than before. A reply after the longest deadline does not count, because no
 * request should wait that long. If there are no others, the server is that far away: the deadline
 * is the longest one, and the outage that follows is reported with its reason.
 */

import { DEADLINE_MS_MAX } from '../../call-bounds.ts'

/** Fits into the 20 ms that Envoy waits, and is fifty times the round trip within a machine. */
export const DEADLINE_MS_MIN = 15

/** Round trips until a reply is late: enough for a lost packet or a busy server. */
const ROUND_TRIPS = 3

/** Long enough to hold a few samples of a service with little traffic. */
const WINDOW_MS = 1_000

export class RoundTrip {
  #windowMs = Number.NEGATIVE_INFINITY
  #youngMs = Number.POSITIVE_INFINITY
  #oldMs = Number.POSITIVE_INFINITY
  /** The shortest of replies after the longest deadline. */
  #farMs = Number.POSITIVE_INFINITY

  /** The shortest that was measured lately; undefined before the first answer. */
  get ms(): number | undefined {
    const nearMs = Math.min(this.#youngMs, this.#oldMs)
    const ms = Number.isFinite(nearMs) ? nearMs : this.#farMs
    return Number.isFinite(ms) ? ms : undefined
  }

  learn(tookMs: number, nowMs: number): void {
    if (tookMs > DEADLINE_MS_MAX) {
      this.#farMs = Math.min(this.#farMs, tookMs)
      return
    }
    if (nowMs - this.#windowMs >= WINDOW_MS) {
      this.#windowMs = nowMs
      this.#oldMs = this.#youngMs
      this.#youngMs = tookMs
    } else if (tookMs < this.#youngMs) this.#youngMs = tookMs
  }

  /** The deadline of a caller that has set none. */
  get deadlineMs(): number {
    const wantedMs = Math.ceil((this.ms ?? 0) * ROUND_TRIPS)
    return Math.min(Math.max(wantedMs, DEADLINE_MS_MIN), DEADLINE_MS_MAX)
  }
}
