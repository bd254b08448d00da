/**
 * A charge plan: the counters that a call is charged to, worked out before any store is asked, and
 * the uses of these counters. A use is one limit's part in the call. Several uses may share a
 * counter, such as two descriptors of a call that lead to the same rule; they take what is left in
 * their order.
 */

import type { Charge, Decision } from 'tidegate'

/** One counter of a plan. A plan names no counter twice, except to give units back as well. */
export interface PlannedCharge extends Charge {
  /** Counted, but never refuses the call. */
  readonly isShadow: boolean
  /** One of several limits of which a single one with room admits the call. */
  readonly isQuota: boolean
  /** Gives its cost back instead of taking it. */
  readonly isNegative: boolean
}

export interface ChargeUse<Subject> {
  /** The front end's own name for the limit. The engine hands it back in events. */
  readonly subject: Subject
  /** Index of its charge; undefined for an unlimited rule, which has no counter. */
  readonly chargeAt: number | undefined
  readonly units: number
}

export interface ChargePlan<Subject> {
  readonly charges: readonly PlannedCharge[]
  readonly uses: readonly ChargeUse<Subject>[]
}

/**
 * `unavailable`: the store did not answer, or not in time, and the limit refuses then.
 * `returned`: units were given back.
 */
export type UseOutcome = 'admitted' | 'denied' | 'unavailable' | 'returned' | 'unlimited'

/** The decision of a limit for one use. Metrics and responses are made from these events alone. */
export interface DecisionEvent<Subject = unknown> {
  readonly type: 'decision'
  readonly subject: Subject
  readonly outcome: UseOutcome
  readonly units: number
  /** Units that were left for this use, after the uses of the same call before it. */
  readonly left: number
  /** Undefined for an unlimited rule, as is `decision`. */
  readonly charge: PlannedCharge | undefined
  readonly decision: Decision | undefined
}

/** Called while a call waits for its response, so it must be quick and must not throw. */
export type ChargeListener = (charge: PlannedCharge, decision: Decision) => void

/** One event for each use, in the order of the plan. `decisions` are those of its charges. */
export function decisionEvents<Subject>(
  { uses, charges }: ChargePlan<Subject>,
  decisions: readonly Decision[],
): readonly DecisionEvent<Subject>[] {
  const [only] = uses
  if (only !== undefined && uses.length === 1) return [eventOf(only, charges, decisions, undefined)]
  const taken = charges.map(() => 0)
  return uses.map((use) => eventOf(use, charges, decisions, taken))
}

/** `taken` has the units of each charge that earlier uses took; this use adds its own. */
function eventOf<Subject>(
  { subject, chargeAt, units }: ChargeUse<Subject>,
  charges: readonly PlannedCharge[],
  decisions: readonly Decision[],
  taken: number[] | undefined,
): DecisionEvent<Subject> {
  const charge = chargeAt === undefined ? undefined : charges[chargeAt]
  const decision = chargeAt === undefined ? undefined : decisions[chargeAt]
  if (chargeAt === undefined || charge === undefined || decision === undefined) {
    const base = { type: 'decision', subject, units } as const
    return { ...base, outcome: 'unlimited', left: Infinity, charge: undefined, decision: undefined }
  }
  const { allowed, remaining, granted } = decision
  const left = (allowed ? remaining + granted : remaining) - (taken?.[chargeAt] ?? 0)
  const outcome = outcomeOf(charge, decision, units, left)
  if (taken !== undefined && outcome === 'admitted') {
    taken[chargeAt] = (taken[chargeAt] ?? 0) + units
  }
  return { type: 'decision', subject, outcome, units, left, charge, decision }
}

function outcomeOf(
  { isNegative }: PlannedCharge,
  decision: Decision,
  units: number,
  left: number,
): UseOutcome {
  if (isNegative) return 'returned'
  if (decision.allowed) return 'admitted'
  if (isUnavailable(decision)) return 'unavailable'
  return units > left ? 'denied' : 'admitted'
}

/** True if the limit refuses because its store did not answer, or not in time. */
export function isUnavailable({ allowed, degraded }: Decision): boolean {
  return !allowed && (degraded?.mode === 'closed' || degraded?.mode === 'shed')
}
