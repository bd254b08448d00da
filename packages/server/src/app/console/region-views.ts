/** The regions of a service for the console: the links, and what each shared limit guarantees. */

import type { RegionLimitView, RegionsView } from '../../admin/console/region-types.ts'
import { regionBounds } from '../../policy/regions/region-bounds.ts'
import type { PolicyDocument } from '../../policy/schema/policy-schema.ts'
import { decidedBy } from '../../regions/region-counts.ts'
import type { RegionsState } from '../../regions/regions.ts'
import { type Reading, rateOf } from './store-views.ts'

const SENT = 'tidegate_region_sent_bytes_total'
const RECEIVED = 'tidegate_region_received_bytes_total'
const DECISIONS = 'tidegate_region_decisions_total'

/** Null if the policy has no regions. Rates are those between two readings of the metrics. */
export function regionsView(
  state: RegionsState | undefined,
  document: PolicyDocument,
  before: Reading,
  now: Reading,
): RegionsView | null {
  if (state === undefined) return null
  const bytesOf = (name: string, region: string) =>
    rateOf(before, now, name, ({ to }) => to === region)
  return {
    self: state.self,
    peers: state.peers.map(({ region, isUp, problem, roundTripMs, clockOffsetMs }) => ({
      region,
      isUp,
      problem: problem ?? null,
      roundTripMs: roundTripMs ?? null,
      clockOffsetMs: clockOffsetMs ?? null,
      bytesPerSecond: bytesOf(SENT, region) + bytesOf(RECEIVED, region),
    })),
    leasedKeys: state.held.keys,
    leasedUnits: state.held.units,
    limits: limitViews(document, before, now),
  }
}

function limitViews(
  document: PolicyDocument,
  before: Reading,
  now: Reading,
): readonly RegionLimitView[] {
  return regionBounds(document).map(({ limit: name, mode, text, warnings }) => {
    const perSecond = decidedBy
      .map((way) => ({
        by: way,
        count: rateOf(before, now, DECISIONS, ({ limit, by }) => limit === name && by === way),
      }))
      .filter(({ count }) => count > 0)
    // The sentence begins with the name of the limit, which has a column of its own.
    return { name, mode, perSecond, guarantee: text.slice(name.length + 2), warnings }
  })
}
