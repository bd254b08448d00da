/**
 * The limits of a policy that regions share, and the numbers that each region enforces of them.
 */

import type { Limit } from 'tidegate'
import { sharedCounter } from 'tidegate/regions'
import { changedLimit } from '../limits/compile/make-limit.ts'
import {
  ESCROW_UNITS_PER_REGION_MIN,
  homeUnits,
  RESERVE_PERCENT_DEFAULT,
  reserveUnits,
  shareUnits,
} from '../policy/regions/region-parts.ts'
import type { PolicyDocument } from '../policy/schema/policy-schema.ts'
import type { CutOffMode, RegionMode } from '../policy/schema/regions/regions-section.ts'
import type { Topology } from './topology.ts'

/** A limit with a mode. */
export interface RegionLimit {
  readonly name: string
  readonly mode: RegionMode
  readonly onCutOff: CutOffMode
  /** For `shared`: how much of the limit regions may use unseen, in shares. */
  readonly blind: number
  /** The numbers for a limit as a tier or an override has it. */
  partsOf(limit: Limit): LimitParts
}

export interface LimitParts {
  /** The part of this region: with `partition`, and with `onCutOff: local`. */
  readonly share: Limit
  /** The part at home, for all regions. */
  readonly home: Limit
  /** The part that this region has for itself; undefined if it is less than one unit. */
  readonly reserve: Limit | undefined
  /** Whether blocks can be leased. */
  readonly isLeasable: boolean
  /** The counter of this region with `shared`. */
  readonly shared: SharedParts | undefined
}

export interface SharedParts {
  /** The limit of the counter, in parts of a unit. The store makes every decision. */
  readonly counter: Limit
  /** The parts of an own unit that other regions have not counted. */
  readonly whole: number
  /** The parts of a unit that all regions have counted. */
  readonly known: number
  /** The units of the limit that can be granted at once. */
  readonly capacity: number
}

/** Returns the limits by name; empty if no limit has a mode. */
export function regionLimits(
  { limits }: Pick<PolicyDocument, 'limits'>,
  topology: Topology,
): ReadonlyMap<string, RegionLimit> {
  const found = new Map<string, RegionLimit>()
  for (const { name, regions } of limits) {
    if (regions === undefined) continue
    const { mode, reserve = RESERVE_PERCENT_DEFAULT, onCutOff = 'reserve', blind = 1 } = regions
    const known = new WeakMap<Limit, LimitParts>()
    const partsOf = (limit: Limit): LimitParts => {
      const parts = known.get(limit) ?? divide(limit, { mode, reserve, blind }, topology)
      known.set(limit, parts)
      return parts
    }
    found.set(name, { name, mode, onCutOff, blind, partsOf })
  }
  return found
}

function divide(
  limit: Limit,
  { mode, reserve: percent, blind }: { mode: RegionMode; reserve: number; blind: number },
  topology: Topology,
): LimitParts {
  const { self, names, shares, sharesSum } = topology
  const own = shares.get(self) ?? 1
  const share = withUnits(limit, (units) => shareUnits(units, own, sharesSum))
  const reserve = withUnits(limit, (units) => reserveUnits(units, percent, names.length))
  // A slot is given back where it was taken, and a region with a reserve would have to guess.
  const hasReserve = limit.algorithm !== 'concurrency' && isUsable(reserve)
  const home = hasReserve
    ? withUnits(limit, (units) => homeUnits(units, percent, names.length))
    : limit
  const isEnough = limit.limit >= ESCROW_UNITS_PER_REGION_MIN * names.length
  return {
    share,
    // As for the calls of other regions: each is decided by the store, and none by a lease.
    home: mode === 'home' ? { ...home, accuracy: 'exact' } : home,
    reserve: hasReserve ? reserve : undefined,
    isLeasable: mode === 'escrow' && isEnough,
    shared: mode === 'shared' ? sharedParts(limit, blind, topology) : undefined,
  }
}

function sharedParts(limit: Limit, blind: number, { self, shares }: Topology): SharedParts {
  const regions = [...shares].map(([name, parts]) => ({ name, parts }))
  const { limit: counter, costs } = sharedCounter({ regions, self, limit, blind })
  return {
    // Units of a lease are set aside, and could not be given back before it is settled.
    counter: { ...counter, accuracy: 'exact' },
    ...{ whole: costs.whole, known: costs.known },
    capacity: limit.algorithm === 'tokenBucket' ? limit.burst : limit.limit,
  }
}

function withUnits(limit: Limit, unitsOf: (units: number) => number): Limit {
  const units = unitsOf(limit.limit)
  if (limit.algorithm !== 'tokenBucket') return changedLimit(limit, { limit: units })
  const burst = unitsOf(limit.burst)
  // A bucket that can hold nothing grants nothing, at any rate.
  if (units === 0 || burst === 0) return changedLimit(limit, { limit: 0 })
  return changedLimit(limit, { limit: units, burst })
}

function isUsable({ limit }: Limit): boolean {
  return limit > 0
}
