/**
 * Counters with holds, for which the fast path is not tried for a while: it would leave their
 * charges to the general script again, which costs another round trip.
 */

import { steadyClock } from '../../../clock.ts'
import { keysOf, type Waiting } from './waiting.ts'

/** About 100 bytes each. */
const COUNTERS_MAX = 1_024
const KNOWN_MS = 1_000

export class CounterHolds {
  /** Until when each counter is known. */
  readonly #untilMs = new Map<string, number>()

  /** Remembers the counters of charges that the fast path has left. */
  remember(left: readonly Waiting[]): void {
    if (this.#untilMs.size >= COUNTERS_MAX) this.#untilMs.clear()
    const untilMs = steadyClock.now() + KNOWN_MS
    for (const key of left.flatMap(keysOf)) this.#untilMs.set(key, untilMs)
  }

  /** Marks a charge of a counter that is known. */
  mark(waiting: Waiting): void {
    if (this.#untilMs.size === 0) return
    for (const key of keysOf(waiting)) {
      const untilMs = this.#untilMs.get(key)
      if (untilMs === undefined) continue
      if (steadyClock.now() < untilMs) waiting.hasHolds = true
      else this.#untilMs.delete(key)
    }
  }
}
