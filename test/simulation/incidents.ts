/**
 * What happens to the regions of a run from outside. A run is decided by its seed and its list of
 * incidents, so that a shorter list can be tried with the same seed.
 */

import type { Random } from '../e2e/rls/random.ts'
import { between, chance } from './forked-random.ts'

export type Incident = { readonly atMs: number } & (
  | {
      readonly kind: 'demand'
      readonly region: number
      readonly key: number
      readonly units: number
      readonly everyMs: number
      readonly forMs: number
    }
  | { readonly kind: 'cut'; readonly from: number; readonly to: number; readonly forMs: number }
  | { readonly kind: 'step'; readonly region: number; readonly ms: number }
  | {
      readonly kind: 'crash'
      readonly region: number
      /** What is lost: nothing, the memory of the exchanger, or the store as well. */
      readonly loses: 'nothing' | 'exchanger' | 'store'
      readonly forMs: number
    }
  | { readonly kind: 'twoExchangers'; readonly region: number; readonly forMs: number }
  | { readonly kind: 'epoch'; readonly bases: readonly number[] }
  /** A region is gone for good, and operators tell the others, each a moment later. */
  | { readonly kind: 'forget'; readonly region: number; readonly delaysMs: readonly number[] }
)

export interface IncidentOptions {
  readonly regions: number
  readonly keys: number
  readonly durationMs: number
  /** Units of a burst, at most. */
  readonly unitsMax: number
  /** 0: demand alone; 1: links too; 2: everything. */
  readonly trouble: number
  readonly stepMsMax: number
  /** How long links are cut: one of these. */
  readonly cutsMs?: readonly number[]
}

const CUTS_MS = [300, 2_000, 12_000, 30_000]

const DEMANDS_MAX = 10
const TROUBLES_MAX = 6

export function randomIncidents(random: Random, options: IncidentOptions): Incident[] {
  const incidents: Incident[] = []
  const demands = between(random, 2, DEMANDS_MAX)
  for (let count = 0; count < demands; count++) incidents.push(demand(random, options))
  // A burst in all regions at once is the hardest case.
  if (chance(random, 0.4)) {
    const burst = demand(random, options)
    for (let region = 0; region < options.regions; region++) incidents.push({ ...burst, region })
  }
  if (options.trouble >= 1) {
    const cuts = random.below(TROUBLES_MAX)
    for (let count = 0; count < cuts; count++) incidents.push(...cutLinks(random, options))
  }
  if (options.trouble >= 2) {
    const troubles = between(random, 1, TROUBLES_MAX)
    for (let count = 0; count < troubles; count++) incidents.push(trouble(random, options))
  }
  return incidents.toSorted((one, other) => one.atMs - other.atMs)
}

function demand(random: Random, options: IncidentOptions): Incident & { kind: 'demand' } {
  const everyMs = random.pick([20, 50, 200])
  return {
    kind: 'demand',
    atMs: random.below(options.durationMs),
    region: random.below(options.regions),
    key: random.below(options.keys),
    units: between(random, 1, Math.max(1, random.pick([options.unitsMax, options.unitsMax >> 4]))),
    everyMs,
    forMs: random.pick([everyMs, 1_000, 5_000]),
  }
}

/** One direction, both directions, or all links of a region. */
function cutLinks(random: Random, { regions, durationMs, cutsMs = CUTS_MS }: IncidentOptions) {
  const atMs = random.below(durationMs)
  const forMs = random.pick(cutsMs)
  const from = random.below(regions)
  const to = (from + between(random, 1, regions - 1)) % regions
  const one = { kind: 'cut', atMs, forMs } as const
  switch (random.below(3)) {
    case 0:
      return [{ ...one, from, to }]
    case 1:
      return [
        { ...one, from, to },
        { ...one, from: to, to: from },
      ]
    default:
      return Array.from({ length: regions }, (_, peer) => peer)
        .filter((peer) => peer !== from)
        .flatMap((peer) => [
          { ...one, from, to: peer },
          { ...one, from: peer, to: from },
        ])
  }
}

function trouble(random: Random, { regions, durationMs, stepMsMax }: IncidentOptions): Incident {
  const at = { atMs: random.below(durationMs), region: random.below(regions) }
  switch (random.below(3)) {
    case 0:
      return { ...at, kind: 'step', ms: random.below(2 * stepMsMax + 1) - stepMsMax }
    case 1: {
      const loses = random.pick(['nothing', 'exchanger', 'store'] as const)
      return { ...at, kind: 'crash', loses, forMs: random.pick([0, 500, 5_000]) }
    }
    default:
      return { ...at, kind: 'twoExchangers', forMs: 3_000 }
  }
}
