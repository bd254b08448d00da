/** What the mode `shared` of a limit is started with, what it returns, and what it keeps. */

import type { Limit } from '../../algorithms/limit.ts'
import type { SharedMessage } from './shared-messages.ts'
import { costsOf, type SharedCosts, type SharedRow } from './shared-row.ts'
import { checkShares, limitTimes, type RegionShare } from './shares.ts'

export interface SharedSettings {
  readonly regions: readonly RegionShare[]
  readonly self: string
  readonly limit: Limit
  /** The incarnation of the region's store: a stamp as text. */
  readonly incarnation: string
  /** How much of the limit regions may use unseen, in shares: from 1 to the number of regions. */
  readonly blind?: number
  /** The part of its share from which on a key is exchanged. Default: 0.25. */
  readonly floor?: number
  /** Default: 200 ms. */
  readonly exchangeMs?: number
  /** A peer that was silent for as long leaves the mask. Default: 10 s. */
  readonly suspectAfterMs?: number
  /** Keys that are exchanged at a time. Others stay local. Default: 65,536. */
  readonly keysMax?: number
  /** Rows of a message. Default: 4,096. */
  readonly rowsMax?: number
  /** Nothing is given back in the last moments of a window. Default: 50 ms. */
  readonly boundaryMs?: number
}

export const sharedDefaults = {
  keysMax: 65_536,
  floor: 0.25,
  exchangeMs: 200,
  suspectAfterMs: 10_000,
  /** An adjustment takes a round trip to the store, and must not arrive in the next window. */
  boundaryMs: 50,
} as const

/** The counter of a key in one region. */
export interface SharedCounter {
  readonly names: readonly string[]
  /** The limit of the counter, in parts of a unit. */
  readonly limit: Limit
  readonly costs: SharedCosts
}

/** An own unit costs `costs.whole` in the counter, and a unit that all regions know `known`. */
export function sharedCounter(
  settings: Pick<SharedSettings, 'regions' | 'self' | 'limit' | 'blind'>,
): SharedCounter {
  const regions = checkShares(settings.regions, 'regions')
  const names = regions.map(({ name }) => name)
  const parts = regions.map((region) => region.parts)
  const costs = costsOf(parts, names.indexOf(settings.self), settings.blind ?? 1)
  return { names, costs, limit: limitTimes(settings.limit, costs.known) }
}

/** Parts to add to the counter of a key; negative parts are given back. */
export interface SharedAdjustment {
  readonly key: string
  readonly units: number
  /** Parts that are given back must not reach the counter of a later window. */
  readonly cellEndMs?: number
}

export interface SharedEffects {
  readonly adjust: readonly SharedAdjustment[]
  readonly sends: readonly { readonly to: string; readonly message: SharedMessage }[]
}

/**
 * What the next leader of the region continues with. Without it, the region is safe but starts with
 * another incarnation: it charges the units that its peers report a second time.
 */
export interface SharedSaved {
  readonly maskVersion: number
  readonly rows: readonly (readonly [key: string, rows: readonly SharedRow[]])[]
}
