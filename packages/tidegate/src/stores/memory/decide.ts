/**
 * Decisions about counters and groups of them, given the used and held units. All functions are
 * pure; the store keeps their results. All or nothing: if one charge of a group is denied, the
 * usage of every counter stays unchanged.
 */

import type { Algorithm, ChargeResult } from '../../algorithms/algorithm.ts'
import {
  addHold,
  chargeWithHolds,
  dropHold,
  HOLDS_MAX,
  type Holds,
  renewHold,
} from '../../algorithms/holds.ts'
import { type Limit, lifetimeMs } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import type { Adjustment, Charge, ChargeMode } from '../store.ts'

/** The used and held units of one counter. */
export interface Usage {
  readonly algorithm: Algorithm<Limit, object>
  readonly limit: Limit
  readonly state: object | undefined
  readonly holds: Holds
  /** True if a hold that was to be settled is unknown, so that its holder's data is outdated. */
  readonly isLost?: boolean
}

export interface Outcome {
  readonly usage: Usage
  readonly decision: Decision
}

export function decide(usage: Usage, cost: number, now: number): ChargeResult<object> {
  const { algorithm, state, holds, limit } = usage
  return holds.length === 0
    ? algorithm.charge(state, cost, now, limit, 0)
    : chargeWithHolds(algorithm, state, holds, cost, now, limit, lifetimeMs(limit))
}

export function decideGroup(
  group: readonly Charge[],
  usages: readonly Usage[],
  mode: ChargeMode,
  now: number,
): readonly Outcome[] {
  const units = mode === 'partial' ? partialUnits(group, usages, now) : Infinity
  const outcomes = group.map((charge, at) =>
    decideCharge(charge, usages[at] as Usage, Math.min(charge.cost, units), now),
  )
  if (outcomes.every(({ decision }) => decision.allowed)) return outcomes
  return outcomes.map((outcome, at) =>
    outcome.decision.allowed ? peek(usages[at] as Usage, now) : outcome,
  )
}

/** The units left, and if or when the cost would be granted. */
export function peekGroup(
  group: readonly Charge[],
  usages: readonly Usage[],
  now: number,
): readonly Decision[] {
  return group.map((charge, at) => {
    const usage = usages[at] as Usage
    const { allowed, retryAfterMs } = decide(usage, charge.cost, now).decision
    return { ...peek(usage, now).decision, allowed, retryAfterMs }
  })
}

/**
 * How long a counter blocks clients: until a denied cost would be admitted, from the last unit
 * until there is one again, and as long as units are held.
 */
export function blocksForMs(usage: Usage, decision: Decision, now: number): number {
  const heldMs = (usage.holds.at(-1)?.expiresAt ?? now) - now
  if (decision.remaining > 0 && decision.allowed) return heldMs
  const waitMs = decision.allowed
    ? decide(usage, 1, now).decision.retryAfterMs
    : decision.retryAfterMs
  return Math.max(heldMs, Math.min(waitMs, decision.resetAfterMs))
}

export function isEmpty(usage: Usage): boolean {
  return usage.state === undefined && usage.holds.length === 0
}

/** Decides about one charge. Units to hold are charged like others, then set aside. */
function decideCharge(charge: Charge, usage: Usage, cost: number, now: number): Outcome {
  if (usage.isLost) {
    const peeked = peek(usage, now)
    return { ...peeked, decision: { ...peeked.decision, allowed: false } }
  }
  const { state, decision } = decide(usage, cost, now)
  if (charge.hold === undefined || !decision.allowed) {
    return { usage: { ...usage, state }, decision }
  }
  const { holds } = usage
  if (holds.length >= HOLDS_MAX) {
    const retryAfterMs = (holds[0]?.expiresAt ?? now) - now
    return { usage, decision: { ...decision, allowed: false, granted: 0, retryAfterMs } }
  }
  const { id, ttlMs } = charge.hold
  const hold = { id, ttlMs, units: cost, expiresAt: now + ttlMs }
  const held = { ...usage, holds: addHold(holds, hold) }
  return { usage: held, decision: { ...peek(held, now).decision, granted: cost } }
}

/** The usage after a hold was dropped and its spent units were charged. */
export function settled(usage: Usage, { settles }: Charge, now: number): Usage {
  if (settles === undefined) return usage
  const { algorithm, state, limit } = usage
  const holds = dropHold(usage.holds, settles.release)
  const isLost = holds.length === usage.holds.length
  return { ...usage, state: algorithm.adjust(state, settles.units, now, limit), holds, isLost }
}

/** The usage after an adjustment, and the decision about it. */
export function adjusted(
  usage: Usage,
  { units, release, renews }: Adjustment,
  now: number,
): Outcome {
  const { algorithm, limit, holds } = usage
  const state = algorithm.adjust(usage.state, units, now, limit)
  const renewed = renews && renewHold(holds, renews.id, renews.ttlMs, now)
  const left = release === undefined ? holds : dropHold(holds, release)
  const after = { ...usage, state, holds: renewed ?? left }
  const { decision } = decide(after, 0, now)
  const isLost = renews !== undefined && renewed === undefined
  return { usage: after, decision: isLost ? { ...decision, allowed: false } : decision }
}

/** The most units that every charge can have; at least 1, so that nothing left is a denial. */
function partialUnits(group: readonly Charge[], usages: readonly Usage[], now: number): number {
  const left = group.map((_, at) => peek(usages[at] as Usage, now).decision.remaining)
  return Math.max(1, Math.min(...left))
}

function peek(usage: Usage, now: number): Outcome {
  const { state, decision } = decide(usage, 0, now)
  return { usage: { ...usage, state }, decision }
}
