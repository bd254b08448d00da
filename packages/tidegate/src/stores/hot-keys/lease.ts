/**
 * A lease: units of one counter that the store has set aside for this process, which spends them
 * locally. When they are used up, the process requests a new lease, and the spent units of the old
 * one are charged in the same call. Calls that arrive meanwhile go to the store.
 *
 * The store charges a whole lease if it is not settled, so that a process that dies, or an answer
 * that is lost, can only cost units and never grant them twice.
 */

import { LEASE_MARK } from '../../algorithms/holds.ts'
import { capacityOf, type Limit, lifetimeMs } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import { randomUUID } from '../../runtime.ts'
import type { Counter, Store } from '../store.ts'

/**
 * How long the store keeps a lease that is not settled. All times below are much shorter, because
 * the clocks of two machines do not run equally fast.
 */
export const LEASE_TTL_MS = 2_000

/** The units of a lease should last for this time. */
const LEASE_MS_MAX = 50

/**
 * Units that are spent and not charged yet are missing in the next window. They should be at most
 * those of a hundredth of the period of a limit, or a thousandth of its units.
 */
const PERIOD_SHARE = 1 / 100
const UNITS_SHARE = 1 / 1_000

/**
 * A lease of at most this share of the units may last longer. This makes leases worthwhile for
 * the many keys that are not very hot.
 */
const SMALL_UNITS_SHARE = 1 / 4_000
const SMALL_LEASE_MS_MAX = 1_000

/** The largest share of the remaining units: seven other processes may request leases, too. */
const REMAINING_SHARE = 1 / 8

/** Smaller leases save nothing. For a key that is not very hot, the minimum is higher. */
const LEASE_UNITS_MIN = 2
const SMALL_LEASE_UNITS_MIN = 8
const VERY_HOT_PER_SECOND = 100

/**
 * A limit of fewer units is used up soon, and then denials are cached: leases would save few calls,
 * and a burst on several processes would miss the units in the lease of another.
 */
const SHARED_UNITS_MIN = 256

/**
 * `renewMs`: how long a lease is spent before the next is requested, because spent units come back
 * only after they are charged. `settleMs`: when it is charged without a new request. `idleMs`: how
 * long a key that is no longer hot was not used.
 */
const times = { renewMs: 200, settleMs: 250, idleMs: 100 }
const smallTimes = { renewMs: SMALL_LEASE_MS_MAX, settleMs: 1_300, idleMs: 1_000 }

export interface Asked {
  /** The store's decision; undefined if the call failed. */
  readonly decision: Decision | undefined
  /** True if the store did not know the previous lease: it has lost its data. */
  readonly isLost: boolean
}

export class Lease {
  readonly #store: Store
  readonly #counter: Counter
  #id: string | undefined
  #left = 0
  #spent = 0
  #sentMs = 0
  #usedMs = 0
  /** Units left in the store besides the lease, by its last decision. */
  #remaining = 0
  #resetAfterMs = 0
  #uncounted = 0
  #times = times
  #asked: Promise<Asked> | undefined
  /** Units that callers wait for, and that are not requested yet. */
  wanted = 0

  constructor(store: Store, counter: Counter, nowMs: number) {
    this.#store = store
    this.#counter = counter
    this.#usedMs = nowMs
  }

  get limit(): Limit {
    return this.#counter.limit
  }

  get left(): number {
    return this.#left
  }

  /** Returns the units that were spent since the last call. */
  takeSpent(): number {
    const units = this.#uncounted
    this.#uncounted = 0
    return units
  }

  /** The pending request for a new lease. */
  get asked(): Promise<Asked> | undefined {
    return this.#asked
  }

  /** Takes note of the store's decision about a direct charge. */
  learn({ remaining }: Decision): void {
    this.#remaining = remaining
  }

  /** Spends from the lease; undefined if it does not suffice. */
  spend(cost: number, nowMs: number): Decision | undefined {
    if (cost > this.#left || nowMs - this.#sentMs > this.#times.renewMs) return undefined
    this.#left -= cost
    this.#spent += cost
    this.#uncounted += cost
    this.#usedMs = nowMs
    const { limit } = this.#counter
    return {
      allowed: true,
      limit: capacityOf(limit),
      remaining: this.#remaining + this.#left,
      retryAfterMs: 0,
      resetAfterMs: this.#resetAfterMs,
      granted: cost,
      degraded: null,
      source: 'lease',
    }
  }

  /** Puts back units that were spent and then not needed. */
  unspend(cost: number): void {
    this.#left += cost
    this.#spent -= cost
    this.#uncounted -= cost
  }

  /** The size of the next lease at that rate; 0 if there are too few units to share. */
  nextUnits(perSecond: number, atLeast: number): number {
    const perMs = perSecond / 1_000
    const most = capacityOf(this.limit)
    const fewUnits = Math.max(most * UNITS_SHARE, perMs * lifetimeMs(this.limit) * PERIOD_SHARE)
    const smallUnits = Math.min(perMs * SMALL_LEASE_MS_MAX, most * SMALL_UNITS_SHARE)
    const shareUnits = (this.#remaining + this.#left) * REMAINING_SHARE
    const wanted = Math.max(Math.min(perMs * LEASE_MS_MAX, fewUnits), smallUnits)
    const units = Math.floor(Math.min(wanted, shareUnits))
    const unitsMin = perSecond < VERY_HOT_PER_SECOND ? SMALL_LEASE_UNITS_MIN : LEASE_UNITS_MIN
    const isWorthIt = units >= unitsMin && most >= SHARED_UNITS_MIN
    return isWorthIt || atLeast > 0 ? Math.max(units, atLeast) : 0
  }

  /** Requests a lease of `units`, and settles the one before. */
  ask(units: number, nowMs: number): Promise<Asked> {
    const settles = this.#settlement(nowMs)
    const id = LEASE_MARK + randomUUID().slice(1)
    const hold = { id, ttlMs: LEASE_TTL_MS }
    const charge = { ...this.#counter, cost: units, hold, ...(settles && { settles }) }
    this.#drop()
    this.#sentMs = nowMs
    this.#times = units <= capacityOf(this.limit) * SMALL_UNITS_SHARE ? smallTimes : times
    const asked = this.#run(async () => this.#store.charge([charge], 'partial')).then(
      (decision) => {
        this.#asked = undefined
        if (decision === undefined) return { decision, isLost: false }
        this.#remaining = decision.remaining
        this.#resetAfterMs = Math.min(decision.resetAfterMs, lifetimeMs(this.limit))
        const isGranted = decision.allowed && decision.degraded === null
        if (isGranted) {
          this.#id = id
          this.#left = decision.granted
        }
        const isLost = settles !== undefined && !decision.allowed && decision.remaining > 0
        return { decision, isLost: isLost && decision.degraded === null }
      },
    )
    this.#asked = asked
    return asked
  }

  /** Gives back unused units; true if the lease can be forgotten. */
  sweep(nowMs: number): boolean {
    if (this.#asked !== undefined) return false
    const isIdle = nowMs - this.#usedMs > this.#times.idleMs
    if (this.#id === undefined) return isIdle
    if (isIdle || nowMs - this.#sentMs > this.#times.settleMs) void this.settle(nowMs)
    return false
  }

  /** Charges the spent units and gives back the rest. */
  async settle(nowMs: number): Promise<void> {
    const settles = this.#settlement(nowMs)
    this.#drop()
    if (settles === undefined) return
    const { release, units } = settles
    await this.#run(async () => this.#store.adjust([{ ...this.#counter, units, release }]))
  }

  /** Forgets the lease, which the store no longer knows. */
  #drop(): void {
    this.#id = undefined
    this.#left = 0
    this.#spent = 0
  }

  #settlement(nowMs: number): { release: string; units: number } | undefined {
    // The store has charged an expired lease.
    if (this.#id === undefined || nowMs - this.#sentMs >= LEASE_TTL_MS) return undefined
    return { release: this.#id, units: this.#spent }
  }

  /** The first decision of a call; undefined if it failed. */
  async #run(call: () => Promise<readonly Decision[]>): Promise<Decision | undefined> {
    try {
      const [decision] = await call()
      return decision
    } catch {
      return undefined
    }
  }
}
