/**
 * Regions that operators have given up: they are lost, and will not decide again. The keys whose
 * home was such a region get another one.
 *
 * Invariant: no limit is exceeded. The new home begins with an empty counter, so it does not begin
 * before the units that the lost home granted matter no longer: until then its keys are cut off.
 */

import type { Limit } from 'tidegate'
import { lastsMs } from 'tidegate/regions'
import { BLOCK_TTL_MS } from './escrow/escrow-pool.ts'
import type { ProcessTime } from './process-time.ts'

export interface ForgottenRegion {
  readonly name: string
  /** How long ago it was forgotten. */
  readonly ageMs: number
}

/** Units of a block can be spent after the home is gone; a second is for clocks that differ. */
const SETTLED_MS = BLOCK_TTL_MS + 1_000

export class ForgottenRegions {
  readonly #self: string
  readonly #time: ProcessTime
  #isSelfForgotten = false
  /** When each was forgotten, on the clock of this process. */
  #sinceMs: ReadonlyMap<string, number> = new Map()

  constructor(self: string, time: ProcessTime) {
    this.#self = self
    this.#time = time
  }

  /** Replaces all of them. A region that is known already keeps its time. */
  use(regions: readonly ForgottenRegion[]): void {
    const nowMs = this.#time.now()
    const before = this.#sinceMs
    this.#sinceMs = new Map(
      regions.map(({ name, ageMs }) => [name, before.get(name) ?? nowMs - Math.max(0, ageMs)]),
    )
  }

  /** Other regions have given up this one. It decides nothing until it starts again. */
  addSelf(): void {
    this.#isSelfForgotten = true
  }

  get names(): readonly string[] {
    return [...this.#sinceMs.keys()]
  }

  has(name: string): boolean {
    return this.#sinceMs.has(name)
  }

  /** Whether another region is the home of its keys. A forgotten region itself decides nothing. */
  isReplaced(name: string, limit: Limit): boolean {
    const sinceMs = this.#sinceMs.get(name)
    if (name === this.#self) return this.#isSelfForgotten || sinceMs !== undefined
    if (sinceMs === undefined) return false
    return this.#time.now() - sinceMs > lastsMs(limit) + SETTLED_MS
  }
}
