/**
 * The concurrency slots of requests under way, renewed while they are open: a WebSocket or a stream
 * that lasts longer than the `ttl` of its limit stays counted. If the process dies, its slots are
 * free within their `ttl`.
 *
 * One timer serves all slots of a store, and slots travel in batches. If the store does not answer,
 * the next round tries again. A slot whose hold is gone, because the store was away for longer than
 * its `ttl`, is taken again if one is free, and never taken from another holder. Until then its
 * request goes on without being counted.
 */

import type { Adjustment, Charge, Decision, Store } from 'tidegate'

/** A slot that is held for a request. */
export interface OpenSlot {
  readonly charge: Charge
  readonly hold: NonNullable<Charge['hold']>
  /** False for limits in shadow mode, which may have denied it. */
  readonly mayTakeAgain: boolean
  dueMs: number
  isOpen: boolean
}

/** Renewals within a `ttl`: after two that fail there is time for a third. */
const RENEWALS_PER_TTL = 4

/** Each process renews a little earlier than that, by its own share, so that they spread out. */
const JITTER_SHARE = 0.2

/** Slots that are due within this share of a period go with those that are due now. */
const GATHERED_SHARE = 0.25

/** Slots in one call: some 10 KB, and less than a millisecond of Redis. */
const BATCH_MAX = 64

const slotsOfStores = new WeakMap<Store, OpenSlots>()

/** The open slots on a store; one for all policies that use it. */
export function openSlots(store: Store): OpenSlots {
  const known = slotsOfStores.get(store)
  if (known !== undefined) return known
  const slots = new OpenSlots(store)
  slotsOfStores.set(store, slots)
  return slots
}

export class OpenSlots {
  readonly #store: Store
  readonly #periodShare = (1 - JITTER_SHARE * Math.random()) / RENEWALS_PER_TTL
  /** By `ttl`, the first to be renewed first. */
  readonly #queues = new Map<number, Set<OpenSlot>>()
  #timer: NodeJS.Timeout | undefined
  #timerAtMs = Infinity
  #isRenewing = false

  constructor(store: Store) {
    this.#store = store
  }

  /** Begins to renew the slot that a charge has taken. */
  add(charge: Charge, mayTakeAgain: boolean): OpenSlot | undefined {
    const { hold } = charge
    if (hold === undefined) return undefined
    const slot = { charge, hold, mayTakeAgain, dueMs: 0, isOpen: true }
    this.#enqueue(slot, performance.now())
    if (slot.dueMs < this.#timerAtMs && !this.#isRenewing) this.#arm(slot.dueMs)
    return slot
  }

  /** Ends the renewals. The caller gives the slot back. */
  remove(slot: OpenSlot): void {
    slot.isOpen = false
    const { ttlMs } = slot.hold
    const queue = this.#queues.get(ttlMs)
    if (queue?.delete(slot) && queue.size === 0) this.#queues.delete(ttlMs)
  }

  #enqueue(slot: OpenSlot, nowMs: number): void {
    const { ttlMs } = slot.hold
    const queue = this.#queues.get(ttlMs) ?? new Set()
    if (queue.size === 0) this.#queues.set(ttlMs, queue)
    queue.delete(slot)
    slot.dueMs = nowMs + ttlMs * this.#periodShare
    queue.add(slot)
  }

  #arm(atMs: number): void {
    clearTimeout(this.#timer)
    this.#timerAtMs = atMs
    if (atMs === Infinity) return
    this.#timer = setTimeout(() => void this.#renewDue(), Math.max(1, atMs - performance.now()))
    this.#timer.unref()
  }

  async #renewDue(): Promise<void> {
    this.#isRenewing = true
    const due = this.#due(performance.now())
    for (let at = 0; at < due.length; at += BATCH_MAX) {
      await this.#renew(due.slice(at, at + BATCH_MAX).filter(({ isOpen }) => isOpen))
    }
    this.#isRenewing = false
    this.#arm(this.#earliestMs())
  }

  #due(nowMs: number): OpenSlot[] {
    const due: OpenSlot[] = []
    for (const [ttlMs, queue] of this.#queues) {
      const untilMs = nowMs + ttlMs * this.#periodShare * GATHERED_SHARE
      for (const slot of queue) {
        if (slot.dueMs > untilMs) break
        due.push(slot)
      }
    }
    return due
  }

  #earliestMs(): number {
    let earliest = Infinity
    for (const queue of this.#queues.values()) {
      for (const { dueMs } of queue) {
        earliest = Math.min(earliest, dueMs)
        break
      }
    }
    return earliest
  }

  async #renew(slots: readonly OpenSlot[]): Promise<void> {
    if (slots.length === 0) return
    const nowMs = performance.now()
    for (const slot of slots) this.#enqueue(slot, nowMs)
    const decisions = await this.#ask(() => this.#store.adjust(slots.map(renewal)))
    const lost = slots.filter((slot, at) => slot.mayTakeAgain && isLost(decisions[at]))
    await Promise.all(lost.map((slot) => this.#takeAgain(slot)))
  }

  async #takeAgain(slot: OpenSlot): Promise<void> {
    if (!slot.isOpen) return
    const [decision] = await this.#ask(() => this.#store.charge([slot.charge], 'all'))
    if (slot.isOpen || decision?.allowed !== true) return
    // The request has ended meanwhile, and its release may have come before the slot was taken.
    await this.#ask(() => this.#store.adjust([release(slot.charge)]))
  }

  /** Empty if the store did not answer; the next round asks again. */
  async #ask(call: () => ReturnType<Store['adjust']>): Promise<readonly (Decision | undefined)[]> {
    try {
      return await call()
    } catch {
      return []
    }
  }
}

/** Gives the slot of a charge back. */
export function release(charge: Charge): Adjustment {
  return { ...counterOf(charge), units: 0, release: charge.hold?.id ?? '' }
}

function renewal({ charge, hold }: OpenSlot): Adjustment {
  return { ...counterOf(charge), units: 0, renews: hold }
}

/** The counter of a charge, without its cost. */
export function counterOf({ name, limit, key, within }: Charge) {
  return within === undefined ? { name, limit, key } : { name, limit, key, within }
}

/** True if the store has answered that it does not know the hold. */
function isLost(decision: Decision | undefined): boolean {
  return decision !== undefined && !decision.allowed && decision.degraded === null
}
