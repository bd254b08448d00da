/**
 * Judging counters and groups of them, given what is used and held: pure, the store does the
 * keeping. All or nothing: where one charge of a group is denied, the usage of every counter is as
 * it was.
 */

import type { Algorithm, Judgement } from '../../algorithms/algorithm.ts'
import { addHold, chargeBeside, dropHold, HOLDS_MAX, type Holds } from '../../algorithms/holds.ts'
import { type Limit, lastsMs } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import type { Charge, ChargeMode } from '../store.ts'

/** What is used and held of one counter. */
export interface Usage {
  readonly algorithm: Algorithm<Limit, object>
  readonly limit: Limit
  readonly state: object | undefined
  readonly holds: Holds
  /** A hold that was to be settled is not known: what the holder knows is not true any more. */
  readonly isLost?: boolean
}

export interface Outcome {
  readonly usage: Usage
  readonly decision: Decision
}

export function judge(usage: Usage, cost: number, now: number): Judgement<object> {
  const { algorithm, state, holds, limit } = usage
  return holds.length === 0
    ? algorithm.charge(state, cost, now, limit, 0)
    : chargeBeside(algorithm, state, holds, cost, now, limit, lastsMs(limit))
}

export function judgeGroup(
  group: readonly Charge[],
  usages: readonly Usage[],
  mode: ChargeMode,
  now: number,
): readonly Outcome[] {
  const units = mode === 'partial' ? partialUnits(group, usages, now) : Infinity
  const outcomes = group.map((charge, at) =>
    judgeCharge(charge, usages[at] as Usage, Math.min(charge.cost, units), now),
  )
  if (outcomes.every(({ decision }) => decision.allowed)) return outcomes
  return outcomes.map((outcome, at) =>
    outcome.decision.allowed ? look(usages[at] as Usage, now) : outcome,
  )
}

/** What there is now, and whether and when the cost would be granted. */
export function peekGroup(
  group: readonly Charge[],
  usages: readonly Usage[],
  now: number,
): readonly Decision[] {
  return group.map((charge, at) => {
    const usage = usages[at] as Usage
    const { allowed, retryAfterMs } = judge(usage, charge.cost, now).decision
    return { ...look(usage, now).decision, allowed, retryAfterMs }
  })
}

/**
 * How long a counter stands in somebody's way: until a denied cost would be admitted, from the last
 * unit until there is one again, and as long as units are held.
 */
export function blocksForMs(usage: Usage, decision: Decision, now: number): number {
  const heldMs = (usage.holds.at(-1)?.expiresAt ?? now) - now
  if (decision.remaining > 0 && decision.allowed) return heldMs
  const waitMs = decision.allowed
    ? judge(usage, 1, now).decision.retryAfterMs
    : decision.retryAfterMs
  return Math.max(heldMs, Math.min(waitMs, decision.resetAfterMs))
}

export function isEmpty(usage: Usage): boolean {
  return usage.state === undefined && usage.holds.length === 0
}

/** Judges one charge; units that are to be held are judged like any other, then set aside. */
function judgeCharge(charge: Charge, usage: Usage, cost: number, now: number): Outcome {
  if (usage.isLost) {
    const looked = look(usage, now)
    return { ...looked, decision: { ...looked.decision, allowed: false } }
  }
  const { state, decision } = judge(usage, cost, now)
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
  return { usage: held, decision: { ...look(held, now).decision, granted: cost } }
}

/** A counter without a hold that its holder has done with, and with what was spent of that. */
export function settled(usage: Usage, { settles }: Charge, now: number): Usage {
  if (settles === undefined) return usage
  const { algorithm, state, limit } = usage
  const holds = dropHold(usage.holds, settles.release)
  const isLost = holds.length === usage.holds.length
  return { ...usage, state: algorithm.adjust(state, settles.units, now, limit), holds, isLost }
}

/** The most that every charge can have; at least 1, so that it is denied where there is none. */
function partialUnits(group: readonly Charge[], usages: readonly Usage[], now: number): number {
  const left = group.map((_, at) => look(usages[at] as Usage, now).decision.remaining)
  return Math.max(1, Math.min(...left))
}

function look(usage: Usage, now: number): Outcome {
  const { state, decision } = judge(usage, 0, now)
  return { usage: { ...usage, state }, decision }
}
