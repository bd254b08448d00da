/**
 * The pools of a process: leases blocks from homes before they are needed, and settles them. A
 * timer runs while there are pools.
 */

import { randomBytes } from 'node:crypto'
import type { Counter, Decision } from 'tidegate'
import type { Peer } from '../peer/peer.ts'
import type { ProcessTime } from '../process-time.ts'
import {
  answered,
  BLOCK_TTL_MS,
  type Block,
  blocksToSettle,
  type EscrowPool,
  isForgettable,
  leftOf,
  newPool,
  spend,
  tick,
  unanswered,
  unitsToAsk,
  unspend,
} from './escrow-pool.ts'

/** A pool, and what is needed to fill it. */
export interface KeyPool {
  readonly label: string
  /** The counter at home. */
  readonly counter: Counter
  readonly peer: Peer
  readonly pool: EscrowPool
  /** The request under way. */
  asked: Promise<void> | undefined
  resetAfterMs: number
}

export interface HeldUnits {
  /** Keys with a pool. */
  readonly keys: number
  /** Units that are leased and not spent. */
  readonly units: number
}

const SWEEP_MS = 50

/** About 500 bytes each. Keys beyond are decided by their home. */
const POOLS_MAX = 8_192

/** For a link that has not measured its round trip yet. */
const ROUND_TRIP_MS_DEFAULT = 100

/** The first character of the id of a hold that is charged if it is not settled. */
const LEASE_MARK = '!'

/** Names one of the few blocks of a key that are open at a time. */
const blockId = () => randomBytes(ID_BYTES).toString('base64url')

const ID_BYTES = 6

export class EscrowPools {
  readonly #regions: number
  readonly #pools = new Map<string, KeyPool>()
  readonly #time: ProcessTime
  #stopSweeps: (() => void) | undefined

  constructor(regions: number, time: ProcessTime) {
    this.#regions = regions
    this.#time = time
  }

  /** The pool of a key; undefined if there are too many. */
  of(label: string, counter: Counter, peer: Peer): KeyPool | undefined {
    const known = this.#pools.get(label)
    // The home of a key can move, when a region is forgotten.
    const isSame = known?.counter.limit === counter.limit && known.peer === peer
    if (known !== undefined && isSame) return known
    if (known !== undefined) this.#settle(known, true)
    else if (this.#pools.size >= POOLS_MAX) return undefined
    const pool = newPool(this.#time.now())
    const made = { label, counter, peer, pool, asked: undefined, resetAfterMs: 0 }
    this.#pools.set(label, made)
    this.#stopSweeps ??= this.#time.every(SWEEP_MS, () => this.#sweep())
    return made
  }

  /** Takes `cost` units, or nothing, and asks for more in time. */
  spend(key: KeyPool, cost: number): boolean {
    const isSpent = spend(key.pool, cost, this.#time.now())
    this.#ask(key)
    return isSpent
  }

  unspend({ pool }: KeyPool, cost: number): void {
    unspend(pool, cost, this.#time.now())
  }

  /** Units that can be had without the link now, and those at home by its last answer. */
  leftOf({ pool }: KeyPool): { readonly here: number; readonly home: number } {
    return { here: leftOf(pool, this.#time.now()), home: pool.known ?? 0 }
  }

  /** Takes note of a decision of the home about a single charge. */
  learn(key: KeyPool, { remaining, resetAfterMs }: Decision): void {
    key.pool.known = remaining
    key.resetAfterMs = resetAfterMs
  }

  /** The units of a key are gone at home. */
  forget(label: string): void {
    this.#pools.delete(label)
  }

  held(): HeldUnits {
    const nowMs = this.#time.now()
    let units = 0
    for (const { pool } of this.#pools.values()) units += leftOf(pool, nowMs)
    return { keys: this.#pools.size, units }
  }

  /** Gives back all units. */
  async close(): Promise<void> {
    this.#stopSweeps?.()
    const pools = [...this.#pools.values()]
    this.#pools.clear()
    await Promise.all(pools.map((key) => this.#settle(key, true)))
  }

  #sweep(): void {
    const nowMs = this.#time.now()
    for (const key of this.#pools.values()) {
      tick(key.pool, nowMs)
      this.#settle(key, false)
      this.#ask(key)
      if (isForgettable(key.pool, nowMs)) this.#pools.delete(key.label)
    }
    if (this.#pools.size > 0) return
    this.#stopSweeps?.()
    this.#stopSweeps = undefined
  }

  #ask(key: KeyPool): void {
    const { pool, counter, peer } = key
    const sentMs = this.#time.now()
    const { limit } = counter
    const units = unitsToAsk(pool, sentMs, {
      regions: this.#regions,
      roundTripMs: peer.link.roundTripMs ?? ROUND_TRIP_MS_DEFAULT,
      capacity: limit.algorithm === 'tokenBucket' ? limit.burst : limit.limit,
    })
    if (units === 0 || !peer.link.isUp) return
    const hold = { id: LEASE_MARK + blockId(), ttlMs: BLOCK_TTL_MS }
    pool.isAsking = true
    key.asked = peer.store.charge([{ ...counter, cost: units, hold }], 'partial').then(
      ([decision]) => {
        key.asked = undefined
        if (decision === undefined) return unanswered(pool, this.#time.now())
        const { granted, remaining, resetAfterMs } = decision
        const block: Block = { id: hold.id, granted, left: granted, sentMs }
        key.resetAfterMs = resetAfterMs
        answered(pool, granted === 0 ? undefined : block, remaining, this.#time.now())
      },
      () => {
        key.asked = undefined
        unanswered(pool, this.#time.now())
        // If the home has granted it, nothing of it was spent.
        void this.#release(key, hold.id, 0)
      },
    )
  }

  /** A block whose settlement is lost is charged whole by the home. */
  async #settle(key: KeyPool, all: boolean): Promise<void> {
    const blocks = blocksToSettle(key.pool, this.#time.now(), all)
    if (blocks.length === 0) return
    await Promise.all(blocks.map(({ id, granted, left }) => this.#release(key, id, granted - left)))
  }

  async #release({ counter, peer }: KeyPool, id: string, units: number): Promise<void> {
    try {
      await peer.store.adjust([{ ...counter, units, release: id }])
    } catch {
      // The home charges all of it when it expires.
    }
  }
}
