/**
 * The leased store: a store in front of a store that decides about hot keys itself, and is still
 * exact. It uses nothing of the store behind it but the contract.
 *
 * A denial is repeated without the store until its time is over. For a key with many calls, the
 * process takes a lease of units that the store has set aside, and spends it locally. Groups are
 * all or nothing. Limits that declare `split` are divided first (split-counters.ts).
 *
 * Sliding logs, whose requests must be logged one by one, and concurrency limits are not leased.
 */

import { steadyClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { type Observer, safely } from '../../observer.ts'
import { chargeSingle } from '../charge-one.ts'
import type {
  Adjustment,
  Callback,
  Charge,
  ChargeMode,
  Counter,
  MaybePromise,
  Store,
  StoreCapabilities,
} from '../store.ts'
import { Denials } from './denials.ts'
import { type HotLimit, HotLimits, isShared } from './hot-limits.ts'
import { LeasedGroups } from './leased-groups.ts'
import { isSplit, SplitCounters } from './split-counters.ts'

export class LeasedStore implements Store {
  readonly isRemote = true
  readonly capabilities: StoreCapabilities
  readonly #store: Store
  readonly #limits: HotLimits
  readonly #groups: LeasedGroups
  readonly #split = new SplitCounters(this)
  readonly #denials = new Denials()

  constructor(store: Store, observer: Observer | undefined) {
    const { times } = store.capabilities ?? {}
    this.#store = store
    this.#limits = new HotLimits(store, safely(observer))
    this.#groups = new LeasedGroups(store, this.#limits)
    const { shardOf } = store.capabilities ?? {}
    this.capabilities = {
      ...(shardOf === undefined ? undefined : { shardOf }),
      leasedOf: ({ name, limit, key }) => this.#limits.of(name, limit).leased.leftOf(key),
      ready: async (timeoutMs) => store.capabilities?.ready?.(timeoutMs),
      held: () => ({
        leases: this.#limits.leases,
        denials: this.#denials.size + this.#groups.denials.size,
      }),
      ...(times === undefined ? undefined : { times }),
      hotKeys: () => {
        const nowMs = steadyClock.now()
        this.#denials.reportCalls(nowMs)
        this.#groups.denials.reportCalls(nowMs)
        return this.#limits.hotKeys()
      },
    }
  }

  chargeOne(counter: Counter, cost: number, done: Callback): Decision | undefined {
    const { name, limit, key } = counter
    if (isSplit(limit)) return this.#split.chargeOne(counter, cost, done)
    if (!isShared(limit)) return this.#store.chargeOne(counter, cost, done)
    const hot = this.#limits.of(name, limit)
    const nowMs = steadyClock.now()
    const isSynced = limit.accuracy === 'synced'
    const decision = isSynced
      ? hot.synced.decide(limit, key, cost, nowMs)
      : this.#decide(hot, counter, cost, nowMs)
    if (decision !== undefined) return decision
    const call = new SingleCharge(this, hot, counter, cost, nowMs, done)
    const immediate = this.#store.chargeOne(counter, cost, call)
    // After the charge is on its way, because the server works on it meanwhile.
    if (!isSynced) this.#ask(hot, counter, nowMs)
    if (immediate !== undefined) this.learn(hot, counter, cost, nowMs, immediate)
    return immediate
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    const [first] = group
    if (group.some(({ limit }) => isSplit(limit))) return this.#split.charge(group, mode)
    if (mode === 'peek') return this.#peek(group)
    const isPlain = group.every(({ hold, settles }) => hold === undefined && settles === undefined)
    const isHere = mode === 'all' && isPlain && group.some(({ limit }) => isShared(limit))
    if (!isHere || first === undefined) return this.#store.charge(group, mode)
    if (group.length > 1) return this.#groups.charge(group)
    const decision = chargeSingle(this, first, first.cost)
    return decision instanceof Promise ? decision.then((one) => [one]) : [decision]
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    const adjustments = group.map((one) => (isSplit(one.limit) ? this.#split.current(one) : one))
    this.#forgive(adjustments)
    return this.#store.adjust(adjustments)
  }

  async reset(group: readonly Counter[]): Promise<void> {
    const parts = group.flatMap((one) => (isSplit(one.limit) ? this.#split.all(one) : one))
    this.#forgive(parts)
    for (const counter of parts) this.#limits.forget(counter)
    if (parts.length === group.length) await this.#store.reset(group)
    else await Promise.all(parts.map((part) => this.#store.reset([part])))
  }

  /** Gives back leased units. */
  async close(): Promise<void> {
    await this.#limits.close()
    await this.#store.close()
  }

  /** Takes note of the store's decision about one counter. */
  learn(hot: HotLimit, counter: Counter, cost: number, sentMs: number, decision: Decision): void {
    const { limit, key } = counter
    if (limit.accuracy === 'synced') {
      hot.synced.learn(counter, decision, steadyClock.now())
      // Not when the call is sent: with a slow answer, the timer would find no counter and stop.
      this.#limits.startSync()
      return
    }
    const leased = this.#limits.isLeasable(limit) ? hot.leased : undefined
    if (!decision.allowed) {
      const onCalls = (calls: number, atMs: number) => leased?.count(key, calls, atMs)
      const question = { limits: [limit], cost }
      const times = { sentMs, nowMs: steadyClock.now() }
      this.#denials.add(hot.denials, key, question, [decision], times, onCalls)
    }
    if (leased !== undefined && leased.size > 0) leased.learn(limit, key, decision)
  }

  /** Decides without the store if a lease suffices or a denial still holds. */
  #decide(hot: HotLimit, counter: Counter, cost: number, nowMs: number): Decision | undefined {
    const { limit, key } = counter
    const leased = this.#limits.isLeasable(limit) ? hot.leased : undefined
    const spent = leased?.spend(limit, key, cost, nowMs)
    if (spent !== undefined) return spent
    if (this.#denials.size > 0) {
      const denied = this.#denials.findOne(hot.denials, key, limit, cost, nowMs)
      if (denied !== undefined) return denied
    }
    return undefined
  }

  /** Counts a call, and takes a lease for later ones if its key is hot. */
  #ask(hot: HotLimit, counter: Counter, nowMs: number): void {
    if (!this.#limits.isLeasable(counter.limit)) return
    if (hot.leased.ask(counter, nowMs) !== undefined) this.#limits.startSweep()
  }

  /** Units in a lease of this process are available to it. */
  async #peek(group: readonly Charge[]): Promise<readonly Decision[]> {
    const decisions = await this.#store.charge(group, 'peek')
    return decisions.map((decision, at) => {
      const { name, limit, key, cost } = group[at] as Charge
      const left = this.#limits.of(name, limit).leased.leftOf(key)
      if (left === 0) return decision
      const allowed = decision.allowed || cost <= left
      const remaining = decision.remaining + left
      return { ...decision, remaining, allowed, retryAfterMs: allowed ? 0 : decision.retryAfterMs }
    })
  }

  /** Forgets denials that may no longer hold. */
  #forgive(group: readonly Counter[]): void {
    for (const { name, limit, key } of group) {
      this.#denials.forget(this.#limits.of(name, limit).denials, key)
    }
    this.#groups.denials.clear()
  }
}

/** A single charge that the store decides about. */
class SingleCharge implements Callback {
  readonly #owner: LeasedStore
  readonly #hot: HotLimit
  readonly #counter: Counter
  readonly #cost: number
  readonly #done: Callback
  readonly startMs: number

  constructor(
    owner: LeasedStore,
    hot: HotLimit,
    counter: Counter,
    cost: number,
    startMs: number,
    done: Callback,
  ) {
    this.#owner = owner
    this.#hot = hot
    this.#counter = counter
    this.#cost = cost
    this.startMs = startMs
    this.#done = done
  }

  resolve(decision: Decision): void {
    this.#owner.learn(this.#hot, this.#counter, this.#cost, this.startMs, decision)
    this.#done.resolve(decision)
  }

  reject(error: unknown): void {
    this.#done.reject(error)
  }
}
