/**
 * Holds: units set aside for a while. A reservation is a hold that is later replaced by the units
 * that were really spent, or dropped. A concurrency slot is a hold of one unit. A hold that is not
 * settled expires.
 *
 * Other callers cannot have held units, and these do not drain; they are charged by the commit. So
 * a commit in a later window counts in that window, and a refund never gives back units that time
 * has already given back.
 */

import type { Algorithm, ChargeResult } from './algorithm.ts'

export interface Hold {
  readonly id: string
  readonly units: number
  readonly ttlMs: number
  readonly expiresAt: number
}

/** The first character of the id of a lease. */
export const LEASE_MARK = '!'

/**
 * A lease is a hold that is charged when it expires, instead of dropped: its holder may have spent
 * all of it and died.
 */
export function isLease({ id }: Hold): boolean {
  return id.startsWith(LEASE_MARK)
}

/** Open holds of one key, the first to expire first. */
export type Holds = readonly Hold[]

/**
 * Open holds per key. In memory each costs about 100 bytes and a step in every decision on the key,
 * in Redis about 150 bytes and no step; so this is a megabyte and a half at most. More requests in
 * flight on one key are a global limit, which a wider one without slots serves better.
 */
export const HOLDS_MAX = 10_000

/** Drops expired holds, and shortens those that would last longer than their `ttlMs` from `now`. */
export function openHolds(holds: Holds, now: number): Holds {
  const isCurrent = (hold: Hold) => hold.expiresAt > now && hold.expiresAt - hold.ttlMs <= now
  if (holds.every(isCurrent)) return holds
  return holds
    .filter((hold) => hold.expiresAt > now)
    .map((hold) => ({ ...hold, expiresAt: Math.min(hold.expiresAt, now + hold.ttlMs) }))
    .sort((a, b) => a.expiresAt - b.expiresAt)
}

/** The state and the holds at `now`: expired leases are charged as of their expiry. */
export function expireHolds<Params, State>(
  algorithm: Algorithm<Params, State>,
  state: State | undefined,
  holds: Holds,
  now: number,
  params: Params,
): { readonly state: State | undefined; readonly holds: Holds } {
  const open = openHolds(holds, now)
  if (open === holds) return { state, holds }
  let used = state
  for (const hold of holds) {
    if (!isLease(hold) || hold.expiresAt > now) continue
    used = algorithm.adjust(used, hold.units, hold.expiresAt, params)
  }
  return { state: used, holds: open }
}

export function heldUnits(holds: Holds): number {
  let units = 0
  for (const hold of holds) units += hold.units
  return units
}

export function addHold(holds: Holds, hold: Hold): Holds {
  const at = holds.findLastIndex((other) => other.expiresAt <= hold.expiresAt) + 1
  return holds.toSpliced(at, 0, hold)
}

export function dropHold(holds: Holds, id: string): Holds {
  return holds.filter((hold) => hold.id !== id)
}

/** Prolongs the hold of an id from now on; undefined if it is not open. */
export function renewHold(holds: Holds, id: string, ttlMs: number, now: number): Holds | undefined {
  const others = dropHold(holds, id)
  if (others.length === holds.length) return undefined
  const units = heldUnits(holds) - heldUnits(others)
  return addHold(others, { id, units, ttlMs, expiresAt: now + ttlMs })
}

/** Time until no hold matters any more. A lease matters for `leaseMs` after its expiry. */
function lastMs(holds: Holds, now: number, leaseMs: number): number {
  let last = now
  for (const hold of holds) {
    last = Math.max(last, hold.expiresAt + (isLease(hold) ? leaseMs : 0))
  }
  return last - now
}

/**
 * Decides about `cost` with open holds. The retry time is exact also if the expiry of a hold makes
 * room: the search goes through the intervals between two expiries, in which the number of held
 * units is constant. `leaseMs` is how long the units of a whole lease can matter.
 */
export function chargeWithHolds<Params, State>(
  algorithm: Algorithm<Params, State>,
  state: State | undefined,
  holds: Holds,
  cost: number,
  now: number,
  params: Params,
  leaseMs = 0,
): ChargeResult<State> {
  const held = heldUnits(holds)
  const charged = algorithm.charge(state, cost, now, params, held)
  const { decision } = charged
  const resetAfterMs = Math.max(decision.resetAfterMs, lastMs(holds, now, leaseMs))
  const retryAfterMs = decision.allowed
    ? 0
    : retryWithHolds(algorithm, state, holds, held, cost, now, params)
  return { state: charged.state, decision: { ...decision, retryAfterMs, resetAfterMs } }
}

function retryWithHolds<Params, State>(
  algorithm: Algorithm<Params, State>,
  state: State | undefined,
  holds: Holds,
  held: number,
  cost: number,
  now: number,
  params: Params,
): number {
  let left = held
  let fromMs = 0
  for (const hold of holds) {
    const untilMs = hold.expiresAt - now
    const waitMs = algorithm.charge(state, cost, now, params, left).decision.retryAfterMs
    if (Math.max(waitMs, fromMs) < untilMs) return Math.max(waitMs, fromMs)
    left -= hold.units
    fromMs = untilMs
  }
  const waitMs = algorithm.charge(state, cost, now, params, 0).decision.retryAfterMs
  return Math.max(waitMs, fromMs)
}
