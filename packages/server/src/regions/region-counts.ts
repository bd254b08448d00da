/** How decisions about shared limits were made, for metrics and for operators. */

import type { RegionLimit } from './region-limits.ts'

/**
 * `share`: by the region's part. `pool`: from leased units. `home`: by the store of this region,
 * which is the home. `link`: by another region. `cache`: by its earlier denial. `cut-off`: as
 * declared, without the home.
 */
export const decidedBy = [
  ...(['share', 'pool', 'reserve', 'home', 'link', 'cache', 'cut-off'] as const),
] as const

export type DecidedBy = (typeof decidedBy)[number]

export interface RegionCount {
  readonly limit: string
  readonly mode: string
  readonly by: DecidedBy
  readonly count: number
}

/** The names of limits are those of policies, which have at most 256. */
export class RegionCounts {
  readonly #counts = new Map<string, { mode: string; by: Record<DecidedBy, number> }>()

  add({ name, mode }: RegionLimit, by: DecidedBy): void {
    const known = this.#counts.get(name)
    if (known !== undefined) {
      known.by[by]++
      return
    }
    const none = { share: 0, pool: 0, reserve: 0, home: 0, link: 0, cache: 0, 'cut-off': 0 }
    this.#counts.set(name, { mode, by: { ...none, [by]: 1 } })
  }

  /** Forgets limits that the policy no longer has. */
  keep(names: ReadonlyMap<string, unknown>): void {
    for (const name of this.#counts.keys()) if (!names.has(name)) this.#counts.delete(name)
  }

  read(): readonly RegionCount[] {
    return [...this.#counts].flatMap(([limit, { mode, by }]) =>
      decidedBy.map((one) => ({ limit, mode, by: one, count: by[one] })),
    )
  }
}
