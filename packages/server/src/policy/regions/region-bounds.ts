/**
 * What a mode guarantees for a limit, in numbers: the most units beyond the limit, the units that a
 * region alone cannot have, and the time that a decision may take longer.
 */

import { regionBounds as boundsOfMode } from 'tidegate/regions'
import { makeLimit } from '../../limits/compile/make-limit.ts'
import type { LimitSection } from '../schema/limits-section.ts'
import type { PolicyDocument } from '../schema/policy-schema.ts'
import type { RegionMode, RegionsSection } from '../schema/regions/regions-section.ts'
import { ESCROW_UNITS_PER_REGION_MIN, RESERVE_PERCENT_DEFAULT } from './region-parts.ts'

export interface RegionBounds {
  readonly limit: string
  readonly mode: RegionMode
  /** Units beyond the limit at most; Infinity if there is no bound. */
  readonly overage: number
  /** Units that a region cannot have while the others are idle, at most. */
  readonly underUse: number
  /** The most milliseconds that the link adds to a decision; 0 if it is not asked. */
  readonly addedMs: number
  /** One sentence with these numbers. */
  readonly text: string
  /** Reasons to choose another mode. */
  readonly warnings: readonly string[]
}

/** Blocks of shorter periods would be a large part of the limit. */
const ESCROW_PERIOD_MS_MIN = 2_000

/** Returns the bounds of every limit that has a mode, in the order of the policy. */
export function regionBounds(document: PolicyDocument): readonly RegionBounds[] {
  const { regions, limits } = document
  if (regions === undefined) return []
  return limits
    .filter(({ regions: own }) => own !== undefined)
    .map((limit) => boundsOf(limit, regions, document))
}

function boundsOf(
  limit: LimitSection,
  regions: RegionsSection,
  document: PolicyDocument,
): RegionBounds {
  const own = limit.regions ?? { mode: 'partition' }
  const { mode, reserve = RESERVE_PERCENT_DEFAULT, onCutOff, blind = 1 } = own
  const made = makeLimit(limit)
  const shares = Object.entries(regions.list).map(([name, { share }]) => ({ name, parts: share }))
  const bounds = boundsOfMode({
    mode,
    limit: made,
    regions: shares,
    blind,
    reserve: reserve / 100,
    isLocalWhenCutOff: onCutOff === 'local',
  })
  const overage = onCutOff === 'open' ? Infinity : bounds.overage
  const { underUse } = bounds
  const isLocal = mode === 'partition' || mode === 'shared'
  const addedMs = isLocal ? 0 : (regions.link?.deadline ?? 0)
  const units = made.algorithm === 'tokenBucket' ? made.burst : made.limit
  const over = overage === Infinity ? 'without a bound while cut off' : `${overage} of ${units}`
  const text =
    `${limit.name}: ${mode} in ${shares.length} regions; beyond the limit at most ${over}; ` +
    `a region alone gets ${aloneText(units, bounds)}; ${latencyText(mode, addedMs)}`
  const warnings = [
    ...warningsOf(limit, mode, shares.length, document),
    ...(mode === 'shared' ? sharedWarnings(limit, bounds.mostAfterMs) : []),
  ]
  return { limit: limit.name, mode, overage, underUse, addedMs, text, warnings }
}

interface Alone {
  readonly underUse: number
  readonly mostAfterMs: number
}

function aloneText(units: number, { underUse, mostAfterMs }: Alone): string {
  const atOnce = `${units - underUse} of ${units}`
  const isLater = underUse > 0 && mostAfterMs > 0 && mostAfterMs !== Infinity
  return isLater ? `${atOnce} at once, 90 % after ${seconds(mostAfterMs)} s` : atOnce
}

function* sharedWarnings({ name, per }: LimitSection, mostAfterMs: number): Generator<string> {
  if (typeof per !== 'number' || mostAfterMs <= per / 4) return
  yield `${name}: a region alone has 90 % of the limit after ${seconds(mostAfterMs)} s, which is ` +
    'a large part of the period; home fits better'
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1)
}

function latencyText(mode: RegionMode, addedMs: number): string {
  if (mode === 'partition' || mode === 'shared') return 'no added latency'
  const trip = `one round trip, at most ${addedMs} ms`
  if (mode === 'home') return `${trip}, for keys whose home is another region`
  return `no added latency for keys in use, else ${trip}`
}

function* warningsOf(
  { name, limit, per, regions }: LimitSection,
  mode: RegionMode,
  count: number,
  { rateLimitService }: PolicyDocument,
): Generator<string> {
  const isSmall = limit < ESCROW_UNITS_PER_REGION_MIN * count
  if (mode === 'escrow' && isSmall) {
    yield `${name}: escrow leases nothing from a limit of fewer than ` +
      `${ESCROW_UNITS_PER_REGION_MIN * count} units, and acts as home`
  }
  if (mode === 'escrow' && typeof per === 'number' && per < ESCROW_PERIOD_MS_MIN) {
    yield `${name}: with a period below 2 s, leased units are a large part of the limit; ` +
      'home fits better'
  }
  if (mode !== 'partition' && mode !== 'shared' && rateLimitService !== undefined) {
    const which = mode === 'home' ? 'of keys of other regions' : 'about keys that are not in use'
    yield `${name}: Envoy waits 20 ms by default, and decisions ${which} take a round trip ` +
      'between regions; raise its timeout'
  }
  if (regions?.onCutOff === 'open') {
    yield `${name}: with onCutOff open, a region that is cut off admits everything`
  }
}

export function sharesOf(list: RegionsSection['list']): number {
  return Object.values(list).reduce((sum, { share }) => sum + share, 0)
}
