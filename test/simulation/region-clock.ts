/** The clocks of a region: a steady one with drift, and the store's, which also jumps. */

import { type ManualClock, manualClock } from '../../packages/tidegate/src/clock.ts'
import type { RegionTimes } from '../../packages/tidegate/src/stores/regions/region-link.ts'

/** A multiple of every window of the simulations, so that windows begin with the run. */
export const START_MS = 1_800_000_000_000

export class RegionClock {
  /** The clock of the region's store. */
  readonly store: ManualClock = manualClock(START_MS)
  readonly #rate: number
  readonly #steadyStartMs: number
  #offsetMs: number

  constructor(drift: number, offsetMs: number, steadyStartMs: number) {
    this.#rate = 1 + drift
    this.#offsetMs = offsetMs
    this.#steadyStartMs = steadyStartMs
  }

  step(ms: number): void {
    this.#offsetMs += ms
  }

  get offsetMs(): number {
    return this.#offsetMs
  }

  /** Sets the store's clock to the moment. */
  at(trueMs: number): RegionTimes {
    const storeMs = this.storeMsAt(trueMs)
    this.store.jump(storeMs - this.store.now())
    return { steadyMs: this.#steadyStartMs + trueMs * this.#rate, storeMs }
  }

  /** The time of the store's clock at a moment, as it is set now. */
  storeMsAt(trueMs: number): number {
    return Math.floor(START_MS + trueMs * this.#rate + this.#offsetMs)
  }
}
