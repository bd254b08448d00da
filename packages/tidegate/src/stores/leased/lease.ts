/**
 * A block of units of one counter that the store has set aside for this process, spent here without
 * asking. When it is used up, a new one is asked for, and what was spent of the old is charged in
 * the same call. Who comes in the meantime asks the store itself.
 *
 * The store charges a block whole if it never hears of it again, so that a process that dies, or an
 * answer that is lost, can only cost units and never give them twice.
 */

import { randomUUID } from 'node:crypto'
import { LEASE_MARK } from '../../algorithms/holds.ts'
import { type Limit, lastsMs, mostOf } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import type { Counter, Store } from '../store.ts'

/**
 * How long the store keeps a block for a process that is not heard of. All times below are shorter
 * by far, as the clocks of two machines do not run quite alike.
 */
export const LEASE_TTL_MS = 2_000

/** A block is to last for this time. */
const BLOCK_MS_MAX = 50

/**
 * But what is spent and not yet charged is missing in the next window. It should be at most a
 * hundredth of the time of a limit, or a thousandth of its units.
 */
const PERIOD_SHARE = 1 / 100
const UNITS_SHARE = 1 / 1_000

/**
 * A block so small that nobody will miss it may last for longer: it is what makes keys worth a
 * block that are not very hot, of which there are many.
 */
const SMALL_UNITS_SHARE = 1 / 4_000
const SMALL_BLOCK_MS_MAX = 1_000

/** Of what is left, a block is at most this part: seven others may be asking, too. */
const REMAINING_SHARE = 1 / 8

/** Below this, a block would save nothing; nor would one of a key that is not very hot. */
const BLOCK_UNITS_MIN = 2
const SMALL_BLOCK_UNITS_MIN = 8
const VERY_HOT_PER_SECOND = 100

/**
 * A limit of fewer units is soon used up, and then denials are remembered: blocks would save few
 * calls, and a burst on several processes would miss the units that lie in one of another.
 */
const SHARED_UNITS_MIN = 256

/**
 * How long a block is spent before the next is asked for, because what was spent begins to come
 * back only when it is charged; how long until it is charged without asking for another; and how
 * long a key was not used that is no longer hot.
 */
const times = { renewMs: 200, settleMs: 250, idleMs: 100 }
const smallTimes = { renewMs: SMALL_BLOCK_MS_MAX, settleMs: 1_300, idleMs: 1_000 }

export interface Asked {
  /** The store's answer; undefined where it gave none. */
  readonly decision: Decision | undefined
  /** Whether the store no longer knew the block before: it has lost what it knew. */
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
  /** What the store has left besides the block, as it said last; at first nothing is known. */
  #remaining = 0
  #resetAfterMs = 0
  #uncounted = 0
  #times = times
  #asked: Promise<Asked> | undefined
  /** Units that are waited for, and not asked for yet. */
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

  /** Units spent since this was last asked, for those who count them. */
  takeSpent(): number {
    const units = this.#uncounted
    this.#uncounted = 0
    return units
  }

  /** The call that is under way for a new block. */
  get asked(): Promise<Asked> | undefined {
    return this.#asked
  }

  /** What the store said about what is left, when it was asked directly. */
  learn({ remaining }: Decision): void {
    this.#remaining = remaining
  }

  /** Spends from the block; undefined where it does not suffice. */
  spend(cost: number, nowMs: number): Decision | undefined {
    if (cost > this.#left || nowMs - this.#sentMs > this.#times.renewMs) return undefined
    this.#left -= cost
    this.#spent += cost
    this.#uncounted += cost
    this.#usedMs = nowMs
    const { limit } = this.#counter
    return {
      allowed: true,
      limit: mostOf(limit),
      remaining: this.#remaining + this.#left,
      retryAfterMs: 0,
      resetAfterMs: this.#resetAfterMs,
      granted: cost,
      degraded: null,
    }
  }

  /** Puts back what was spent just now and then not needed. */
  unspend(cost: number): void {
    this.#left += cost
    this.#spent -= cost
    this.#uncounted -= cost
  }

  /** How large the next block would be at that rate; 0 where there is too little to share. */
  nextUnits(perSecond: number, atLeast: number): number {
    const perMs = perSecond / 1_000
    const most = mostOf(this.limit)
    const fewUnits = Math.max(most * UNITS_SHARE, perMs * lastsMs(this.limit) * PERIOD_SHARE)
    const smallUnits = Math.min(perMs * SMALL_BLOCK_MS_MAX, most * SMALL_UNITS_SHARE)
    const shareUnits = (this.#remaining + this.#left) * REMAINING_SHARE
    const wanted = Math.max(Math.min(perMs * BLOCK_MS_MAX, fewUnits), smallUnits)
    const units = Math.floor(Math.min(wanted, shareUnits))
    const unitsMin = perSecond < VERY_HOT_PER_SECOND ? SMALL_BLOCK_UNITS_MIN : BLOCK_UNITS_MIN
    const isWorthIt = units >= unitsMin && most >= SHARED_UNITS_MIN
    return isWorthIt || atLeast > 0 ? Math.max(units, atLeast) : 0
  }

  /** Asks for a block of so many units, giving up the one before. */
  ask(units: number, nowMs: number): Promise<Asked> {
    const settles = this.#settlement(nowMs)
    const id = LEASE_MARK + randomUUID().slice(1)
    const hold = { id, ttlMs: LEASE_TTL_MS }
    const charge = { ...this.#counter, cost: units, hold, ...(settles && { settles }) }
    this.#drop()
    this.#sentMs = nowMs
    this.#times = units <= mostOf(this.limit) * SMALL_UNITS_SHARE ? smallTimes : times
    const asked = this.#run(async () => this.#store.charge([charge], 'partial')).then(
      (decision) => {
        this.#asked = undefined
        if (decision === undefined) return { decision, isLost: false }
        this.#remaining = decision.remaining
        this.#resetAfterMs = Math.min(decision.resetAfterMs, lastsMs(this.limit))
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

  /** Gives back what is not needed; true when there is nothing left to look after. */
  sweep(nowMs: number): boolean {
    if (this.#asked !== undefined) return false
    const isIdle = nowMs - this.#usedMs > this.#times.idleMs
    if (this.#id === undefined) return isIdle
    if (isIdle || nowMs - this.#sentMs > this.#times.settleMs) void this.settle(nowMs)
    return false
  }

  /** Charges what was spent and gives back the rest. */
  async settle(nowMs: number): Promise<void> {
    const settles = this.#settlement(nowMs)
    this.#drop()
    if (settles === undefined) return
    const { release, units } = settles
    await this.#run(async () => this.#store.adjust([{ ...this.#counter, units, release }]))
  }

  /** Forgets the block: the store does not know it any more. */
  #drop(): void {
    this.#id = undefined
    this.#left = 0
    this.#spent = 0
  }

  #settlement(nowMs: number): { release: string; units: number } | undefined {
    // One whose time is over was charged by the store.
    if (this.#id === undefined || nowMs - this.#sentMs >= LEASE_TTL_MS) return undefined
    return { release: this.#id, units: this.#spent }
  }

  /** The first decision of a call; undefined where it failed. */
  async #run(call: () => Promise<readonly Decision[]>): Promise<Decision | undefined> {
    try {
      const [decision] = await call()
      return decision
    } catch {
      return undefined
    }
  }
}
