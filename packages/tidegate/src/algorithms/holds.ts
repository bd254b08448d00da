/**
 * Holds: units set aside for a while. A reservation is a hold that is later replaced by what was
 * really spent, or dropped; a concurrency slot is a hold of one unit. A hold that nobody settles
 * expires.
 *
 * Held units cannot be had by anybody else and do not drain; they are charged when they are
 * committed. So a commit in a later window counts in that window, and no refund is ever needed that
 * could give back what time has already given back.
 */

import type { Algorithm, Judgement } from './algorithm.ts'

export interface Hold {
  readonly id: string
  readonly units: number
  readonly ttlMs: number
  readonly expiresAt: number
}

/** What the id of a lease begins with. */
export const LEASE_MARK = '!'

/**
 * A lease is a hold that is charged when its time is over, instead of dropped: its holder may have
 * spent all of it and died.
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

/** Without the expired, and with none that lasts longer from `now` than it was granted for. */
export function openHolds(holds: Holds, now: number): Holds {
  const isCurrent = (hold: Hold) => hold.expiresAt > now && hold.expiresAt - hold.ttlMs <= now
  if (holds.every(isCurrent)) return holds
  return holds
    .filter((hold) => hold.expiresAt > now)
    .map((hold) => ({ ...hold, expiresAt: Math.min(hold.expiresAt, now + hold.ttlMs) }))
    .sort((a, b) => a.expiresAt - b.expiresAt)
}

/** What is used and held by now: leases whose time is over are used from that moment on. */
export function presentOf<Params, State>(
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

/** When none matters any more: a lease still does for `leaseMs` after it was charged. */
function lastMs(holds: Holds, now: number, leaseMs: number): number {
  let last = now
  for (const hold of holds) {
    last = Math.max(last, hold.expiresAt + (isLease(hold) ? leaseMs : 0))
  }
  return last - now
}

/**
 * Judges `cost` beside open holds. The retry time is exact also where it is the expiry of a hold
 * that makes room: it looks at each interval between two expiries, in which what is held is
 * constant. `leaseMs` is how long what was used of a whole lease can matter.
 */
export function chargeBeside<Params, State>(
  algorithm: Algorithm<Params, State>,
  state: State | undefined,
  holds: Holds,
  cost: number,
  now: number,
  params: Params,
  leaseMs = 0,
): Judgement<State> {
  const held = heldUnits(holds)
  const judged = algorithm.charge(state, cost, now, params, held)
  const { decision } = judged
  const resetAfterMs = Math.max(decision.resetAfterMs, lastMs(holds, now, leaseMs))
  const retryAfterMs = decision.allowed
    ? 0
    : retryBeside(algorithm, state, holds, held, cost, now, params)
  return { state: judged.state, decision: { ...decision, retryAfterMs, resetAfterMs } }
}

function retryBeside<Params, State>(
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
