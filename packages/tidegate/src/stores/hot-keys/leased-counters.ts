/**
 * The counters of one limit in this process: the hot ones, and their leases.
 */

import type { Limit } from '../../algorithms/limit.ts'
import { steadyClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import type { Counter, Store } from '../store.ts'
import { isSame } from './denials.ts'
import { type HeavyHitter, HeavyHitters } from './heavy-hitters.ts'
import { type Asked, LEASE_TTL_MS, Lease } from './lease.ts'

/** Calls per second of a key in this process from which a lease can be worth its cost. */
const HOT_PER_SECOND = 20

/** Pause after a store has failed to grant a lease. */
const PAUSE_MS = 100

/**
 * Keys with leases, about 300 bytes each. A load with more hot keys is spread evenly already.
 */
const LEASES_MAX = 4_096

/** State that the limits of a store share. */
export interface LeaseState {
  /** No lease is requested until then, because the store has lost its data or has failed. */
  learningUntilMs: number
  /** Called with keys that have many calls. */
  onHot(name: string, key: string, perSecond: number): void
}

export class LeasedCounters {
  readonly #store: Store
  readonly #name: string
  readonly #state: LeaseState
  readonly #hitters = new HeavyHitters()
  readonly #leases = new Map<string, Lease>()

  constructor(store: Store, name: string, state: LeaseState) {
    this.#store = store
    this.#name = name
    this.#state = state
  }

  get size(): number {
    return this.#leases.size
  }

  /** Spends from a lease; undefined if no lease has enough units. */
  spend(limit: Limit, key: string, cost: number, nowMs: number): Decision | undefined {
    return this.#leases.size === 0 ? undefined : this.#leaseOf(limit, key)?.spend(cost, nowMs)
  }

  /** Puts back units that were spent and then not needed. */
  unspend(key: string, cost: number): void {
    this.#leases.get(key)?.unspend(cost)
  }

  /** Counts calls that were decided without a lease. */
  count(key: string, calls: number, nowMs: number): void {
    const perSecond = this.#hitters.add(key, calls, nowMs)
    if (perSecond >= HOT_PER_SECOND) this.#state.onHot(this.#name, key, perSecond)
  }

  /** Requests a lease, or returns the pending request, if the key is hot and has enough units. */
  ask(counter: Counter, nowMs: number): Promise<Asked> | undefined {
    const { key, limit } = counter
    const lease = this.#leaseOf(limit, key)
    const perSecond = this.#hitters.add(key, 1 + (lease?.takeSpent() ?? 0), nowMs)
    if (perSecond < HOT_PER_SECOND) return undefined
    this.#state.onHot(this.#name, key, perSecond)
    if (lease?.asked !== undefined) return lease.asked
    if (nowMs < this.#state.learningUntilMs) return undefined
    if (lease === undefined && this.#leases.size >= LEASES_MAX) return undefined
    return this.#request(lease ?? this.#add(counter, nowMs), perSecond, 0, nowMs)
  }

  /** Requests a lease of at least `units`, hot or not. Calls meanwhile are part of the next one. */
  async require(counter: Counter, units: number, nowMs: number): Promise<Asked> {
    const lease = this.#leaseOf(counter.limit, counter.key) ?? this.#add(counter, nowMs)
    lease.wanted += units
    if (lease.asked !== undefined) {
      const asked = await lease.asked
      // The first caller requests units for all; the rest is for callers that still wait.
      if (lease.wanted === 0 || lease.left > 0) return asked
      if (lease.asked !== undefined) return lease.asked
    }
    const { wanted } = lease
    lease.wanted = 0
    const startMs = steadyClock.now()
    const perSecond = this.#hitters.add(counter.key, wanted + lease.takeSpent(), startMs)
    return this.#request(lease, perSecond, wanted, startMs) as Promise<Asked>
  }

  /** Takes note of the store's decision about a direct charge. */
  learn(limit: Limit, key: string, decision: Decision): void {
    if (decision.degraded === null && this.#leases.size > 0) {
      this.#leaseOf(limit, key)?.learn(decision)
    }
  }

  /** Units in the lease of this process, which the store counts as used. */
  leftOf(key: string): number {
    return this.#leases.get(key)?.left ?? 0
  }

  /** Forgets the lease of a key that is reset in the store. */
  forget(key: string): void {
    this.#leases.delete(key)
  }

  sweep(nowMs: number): void {
    for (const [key, lease] of this.#leases) {
      const spent = lease.takeSpent()
      if (spent > 0) this.#hitters.add(key, spent, nowMs)
      if (lease.sweep(nowMs)) this.#leases.delete(key)
    }
  }

  async settle(nowMs: number): Promise<void> {
    const leases = [...this.#leases.values()]
    this.#leases.clear()
    await Promise.all(leases.map((lease) => lease.settle(nowMs)))
  }

  top(count: number, nowMs: number): (HeavyHitter & { readonly name: string })[] {
    return this.#hitters.top(count, nowMs).map((hitter) => ({ name: this.#name, ...hitter }))
  }

  #add(counter: Counter, nowMs: number): Lease {
    const { name, limit, key, within } = counter
    const own = within === undefined ? { name, limit, key } : { name, limit, key, within }
    const lease = new Lease(this.#store, own, nowMs)
    this.#leases.set(key, lease)
    return lease
  }

  #request(
    lease: Lease,
    perSecond: number,
    atLeast: number,
    nowMs: number,
  ): Promise<Asked> | undefined {
    const units = lease.nextUnits(perSecond, atLeast)
    if (units === 0) return undefined
    return lease.ask(units, nowMs).then((asked) => {
      if (asked.isLost) this.#state.learningUntilMs = nowMs + LEASE_TTL_MS
      else if (asked.decision?.degraded !== null) this.#state.learningUntilMs = nowMs + PAUSE_MS
      return asked
    })
  }

  /** Settles a lease that was granted under another limit. */
  #leaseOf(limit: Limit, key: string): Lease | undefined {
    const lease = this.#leases.get(key)
    if (lease === undefined || isSame(limit, lease.limit)) return lease
    this.#leases.delete(key)
    void lease.settle(steadyClock.now())
    return undefined
  }
}
