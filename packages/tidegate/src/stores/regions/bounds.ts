/**
 * What a mode guarantees for a limit, in numbers: the most units beyond the limit, the units that a
 * lone region cannot have, and the latency that it adds to a decision.
 *
 * No mode escapes this: before messages arrive, N regions that may each use A units can use N × A
 * together, and one of them alone A. Units beyond the limit plus N times the units out of reach are
 * N - 1 limits. The modes choose A, and how fast a lone region gets the rest.
 */

import { capacityOf, type Limit } from '../../algorithms/limit.ts'
import { costsOf } from './shared-row.ts'
import { checkShares, type RegionShare, sumOf } from './shares.ts'

export const regionModes = ['local', 'partition', 'shared', 'home', 'escrow'] as const

export type RegionMode = (typeof regionModes)[number]

export interface BoundsOptions {
  readonly mode: RegionMode
  readonly limit: Limit
  readonly regions: readonly RegionShare[]
  /** A setting of the mode `shared`. Default: 1. */
  readonly blind?: number
  /** The part of the limit that is kept in reserve by `home` and `escrow`. Default: 0.1. */
  readonly reserve?: number
  /** True if a region that is cut off from the home of a key uses its own share. */
  readonly isLocalWhenCutOff?: boolean
  /** Default: 90 ms. */
  readonly roundTripMs?: number
  /** Default: 200 ms. */
  readonly exchangeMs?: number
}

export interface RegionBounds {
  /** Units beyond the limit, at worst. */
  readonly overage: number
  /** Units of the limit that the region with the smallest share cannot have at once, alone. */
  readonly underUse: number
  /** When a lone region has 90 % of the limit; 0: at once; Infinity: never. */
  readonly mostAfterMs: number
  /** Added to a decision, in the worst case of a healthy link. */
  readonly latencyMs: number
  readonly sentence: string
}

/** Nodes report the units that they admitted to the region's store once in this time. */
export const REPORT_MS = 100

const ROUND_TRIP_MS = 90
const EXCHANGE_MS = 200
const RESERVE = 0.1

export function regionBounds(options: BoundsOptions): RegionBounds {
  const regions = checkShares(options.regions, 'regions')
  const bounds = numbersOf(options, regions)
  return { ...bounds, sentence: sentenceOf(options, bounds) }
}

type Numbers = Omit<RegionBounds, 'sentence'>

function numbersOf(options: BoundsOptions, regions: readonly RegionShare[]): Numbers {
  const { mode, limit, roundTripMs = ROUND_TRIP_MS } = options
  const capacity = capacityOf(limit)
  const least = Math.min(...regions.map(({ parts }) => parts))
  // One division: a share as a fraction would be rounded before it is multiplied.
  const share = Math.floor((capacity * least) / sumOf(regions.map(({ parts }) => parts)))
  switch (mode) {
    case 'local':
      return {
        overage: (regions.length - 1) * capacity,
        ...{ underUse: 0, mostAfterMs: 0, latencyMs: 0 },
      }
    case 'partition':
      return {
        overage: 0,
        underUse: capacity - share,
        ...{ mostAfterMs: Infinity, latencyMs: 0 },
      }
    case 'shared':
      return sharedNumbers(options, regions)
    case 'home':
    case 'escrow': {
      const reserved = Math.floor((capacity * (options.reserve ?? RESERVE)) / regions.length)
      return {
        overage: options.isLocalWhenCutOff ? capacity - share : 0,
        underUse: reserved * (regions.length - 1),
        mostAfterMs: 0,
        latencyMs: mode === 'home' ? roundTripMs : 0,
      }
    }
  }
}

function sharedNumbers(options: BoundsOptions, regions: readonly RegionShare[]): Numbers {
  const { limit, blind = 1, roundTripMs = ROUND_TRIP_MS, exchangeMs = EXCHANGE_MS } = options
  const capacity = capacityOf(limit)
  const parts = regions.map((region) => region.parts)
  // What each region may use before it knows of the others, in parts of the whole limit.
  const unseen = parts.map((_, self) => costsOf(parts, self, blind).known)
  const whole = sumOf(parts)
  const smallest = Math.min(...unseen)
  const least = smallest / whole
  const countedMs = REPORT_MS + exchangeMs + roundTripMs
  return {
    overage: Math.ceil((capacity * (sumOf(unseen) - smallest)) / whole),
    underUse: capacity - Math.floor((capacity * smallest) / whole),
    mostAfterMs: least >= 1 ? 0 : Math.ceil((countedMs * Math.log(0.1)) / Math.log(1 - least)),
    latencyMs: 0,
  }
}

function sentenceOf({ mode, limit }: BoundsOptions, bounds: Numbers): string {
  const capacity = capacityOf(limit)
  const over =
    bounds.overage === 0
      ? `never more than ${capacity}`
      : `at most ${capacity + bounds.overage} instead of ${capacity}`
  const alone = `a lone region has ${capacity - bounds.underUse} at once`
  const later =
    bounds.underUse === 0 || bounds.mostAfterMs === 0
      ? ''
      : bounds.mostAfterMs === Infinity
        ? ', and more by loans only'
        : `, and 90 % after ${(bounds.mostAfterMs / 1_000).toFixed(1)} s`
  const latency =
    bounds.latencyMs > 0
      ? `; decisions outside the home of a key take ${bounds.latencyMs} ms more`
      : ''
  return `${mode}: ${over} in all regions; ${alone}${later}${latency}`
}
