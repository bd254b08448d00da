/** Counts decisions of the limits engine as the reference does, under its names. */

import type { DecisionEvent } from '../../limits/charging/charge-plan.ts'
import type { ShownLimit } from './rls-plan.ts'

/** `nearLimitRatio`: the share of a limit from which hits count as near it. */
export function countDecision(event: DecisionEvent<ShownLimit>, nearLimitRatio: number): void {
  const { outcome, units, left, charge, decision, subject } = event
  const { stats } = subject
  if (outcome === 'unlimited') stats.unlimited += units
  else if (outcome === 'returned') stats.totalNegativeHits += units
  if (charge === undefined || decision === undefined || charge.isNegative) return
  stats.totalHits += units
  if (charge.isShadow && outcome !== 'admitted') stats.shadowMode += units
  const { limit, source } = decision
  const used = Math.max(0, limit - left)
  const near = Math.floor(limit * nearLimitRatio)
  if (outcome === 'denied') {
    const isAtLimit = used >= limit
    if (source === 'cache') stats.overLimitWithLocalCache += units
    stats.overLimit += isAtLimit ? units : used + units - limit
    if (!isAtLimit) stats.nearLimit += limit - Math.max(near, used)
    return
  }
  stats.withinLimit += units
  if (used + units > near) stats.nearLimit += used >= near ? units : used + units - near
}
