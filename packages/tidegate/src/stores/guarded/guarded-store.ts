/**
 * The guarded store: a store that always answers. It stands in front of one that can fail, and is
 * the only place where such failures are handled.
 *
 * The store itself bounds how long a call may take, or timed-store.ts does it for a store that
 * cannot. A call that fails is decided by the limit's `onStoreError`, a call that could not be sent
 * in time by its `onOverload`, and the decision says so. A circuit breaker per shard keeps calls
 * from a store that is down; overload never moves it. Mistakes in the set-up (permissions, types,
 * slots) are not an outage: they are reported to the observer and as a process warning, and never
 * open the breaker.
 *
 * Nothing is ever sent twice: whether a call that timed out was charged stays unknown.
 */

import type { Limit } from '../../algorithms/limit.ts'
import { steadyClock } from '../../clock.ts'
import type { Decision, Degraded } from '../../decision.ts'
import { invalid, TidegateError } from '../../errors.ts'
import { type Observer, safely } from '../../observer.ts'
import type {
  Adjustment,
  Charge,
  ChargeMode,
  Counter,
  MaybePromise,
  Receiver,
  Store,
} from '../store.ts'
import { Breaker } from './breaker.ts'
import { Fallback } from './fallback.ts'
import { type CallOwner, GuardedCall } from './guarded-call.ts'
import {
  type GuardedOptions,
  type GuardedSettings,
  parseGuardedOptions,
} from './guarded-options.ts'
import { LocalShares } from './local-shares.ts'
import { Membership } from './membership.ts'
import { misuseWarning } from './misuse-warning.ts'
import { outageWarning } from './outage-warning.ts'
import type { Shard } from './shard.ts'
import { TimedStore } from './timed-store.ts'

type Reason = Degraded['reason']

/** Shards with a breaker of their own; a cluster has at most 1,000 nodes. */
const SHARDS_MAX = 1_000

const guards = new WeakMap<Store, Store>()

/** Guards a store with the given options. Closing it closes the store. */
export function guardedStore(store: Store, options: GuardedOptions = {}): Store {
  refuseGuarded(store, 'guardedStore')
  return new Guarded(store, parseGuardedOptions(options, 'guardedStore'), true)
}

/** The guard of one limiter with options of its own. The store is not the limiter's to close. */
export function ownGuard(store: Store, options: GuardedOptions): Store {
  refuseGuarded(store, 'createLimiter.store')
  return new Guarded(store, parseGuardedOptions(options, 'createLimiter'), false)
}

/** Of two guards, the inner one would decide, and the options of the outer have no effect. */
function refuseGuarded(store: Store, path: string): void {
  if (!(store instanceof Guarded)) return
  const allowed = 'a store that is not guarded yet, or no options for its guard'
  throw invalid('invalid-option', { path, value: store, allowed })
}

/** The one guard with default options that all limiters of a store share; itself if it is one. */
export function sharedGuard(store: Store): Store {
  if (store instanceof Guarded) return store
  const known = guards.get(store)
  if (known !== undefined) return known
  const guard = ownGuard(store, {})
  guards.set(store, guard)
  return guard
}

class Guarded implements Store {
  readonly isRemote = true
  /** The store as it was given: for calls without a deadline. */
  readonly #store: Store
  /** The same with the bounds of this guard. */
  readonly #bounded: Store
  readonly #settings: GuardedSettings
  readonly #observer: Observer
  readonly #owner: CallOwner
  readonly #shards = new Map<string, Shard>()
  readonly #onlyShard: Shard
  readonly #membership: Membership
  readonly #local: LocalShares
  readonly #fallback: Fallback
  readonly #warn = misuseWarning()
  readonly #warnOfOutage = outageWarning()
  readonly #closesStore: boolean

  constructor(store: Store, settings: GuardedSettings, closesStore: boolean) {
    this.#store = store
    this.#bounded = store.bounded?.(settings.bounds) ?? new TimedStore(store, settings.bounds)
    this.#closesStore = closesStore
    this.#settings = settings
    this.#observer = this.#observing(safely(settings.observer))
    this.#owner = this.#ownerOfCalls()
    this.#onlyShard = this.#newShard('')
    this.#membership = new Membership(store, (count) => this.#observer({ type: 'nodes', count }))
    this.#local = new LocalShares(() => settings.nodes ?? this.#membership.count)
    this.#fallback = new Fallback(settings, this.#local, this.#observer)
  }

  charger(name: string, limit: Limit): (key: string, cost: number) => MaybePromise<Decision> {
    const tell = this.teller(name, limit)
    if (tell !== undefined) {
      return (key, cost) => new Promise((resolve, reject) => tell(key, cost, { resolve, reject }))
    }
    const charge = this.#bounded.charger?.(name, limit)
    if (charge === undefined || this.#isLocal(limit)) {
      return (key, cost) => {
        const decisions = this.charge([{ name, limit, key, cost }], 'all')
        if (decisions instanceof Promise) return decisions.then(([one]) => one as Decision)
        return decisions[0] as Decision
      }
    }
    return (key, cost) => {
      const one = [{ name, limit, key, cost }]
      const shard = this.#shardOf(one)
      const decide = (reason: Reason) => this.#decide(one, 'all', reason, shard)[0] as Decision
      return this.#call(shard, () => charge(key, cost), decide)
    }
  }

  teller(name: string, limit: Limit) {
    const tell = this.#bounded.teller?.(name, limit)
    if (tell === undefined || this.#isLocal(limit)) return undefined
    const shardOf = this.#store.shardOf?.bind(this.#store)
    return (key: string, cost: number, receiver: Receiver) => {
      const startMs = steadyClock.now()
      const shard =
        shardOf === undefined ? this.#onlyShard : this.#shard(shardOf({ name, limit, key }))
      const decide = (reason: Reason) =>
        this.#decide([{ name, limit, key, cost }], 'all', reason, shard)[0] as Decision
      if (!shard.breaker.admits(startMs)) {
        settle(receiver, () => decide('breaker-open'))
        return
      }
      const parts = { shard, startMs, decide, remember: undefined }
      const call = new GuardedCall(this.#owner, parts, receiver)
      try {
        tell(key, cost, call)
      } catch (error) {
        call.reject(error)
      }
    }
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    const shard = this.#shardOf(group)
    const hasLocal = group.some(({ limit }) => this.#isLocal(limit))
    if (hasLocal && this.#settings.nodes === undefined) this.#membership.start()
    return this.#call(
      shard,
      () => this.#bounded.charge(group, mode),
      (reason) => this.#decide(group, mode, reason, shard),
      hasLocal ? (decisions) => this.#remember(group, decisions) : undefined,
    )
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    return this.#call(
      this.#shardOf(group),
      () => this.#bounded.adjust(group),
      (reason) => this.#fallback.adjust(group, reason),
      (decisions) => this.#remember(group, decisions),
    )
  }

  /** Not guarded: a caller that resets must know whether it was done. */
  reset(group: readonly Counter[]): MaybePromise<void> {
    this.#local.reset(group)
    return this.#store.reset(group)
  }

  async ready(timeoutMs = this.#settings.bounds.connectMs): Promise<void> {
    await this.#store.ready?.(timeoutMs)
    const times = this.#bounded.times?.()
    const isTooFar = times?.roundTripMs !== undefined && times.roundTripMs >= times.deadlineMs
    if (isTooFar) this.#warnOfOutage('timeout', times)
  }

  async close(): Promise<void> {
    await this.#membership.stop()
    if (this.#closesStore) await this.#store.close()
  }

  get canLease(): boolean {
    return this.#store.canLease === true
  }

  liesTogether(group: readonly Counter[]): boolean {
    return this.#store.liesTogether?.(group) !== false
  }

  shardOf(counter: Counter): string {
    return this.#store.shardOf?.(counter) ?? ''
  }

  /** Decides at once if the breaker is open. */
  #call<T>(
    shard: Shard,
    run: () => MaybePromise<T>,
    decide: (reason: Reason) => T,
    remember?: (value: T) => void,
  ): MaybePromise<T> {
    const startMs = steadyClock.now()
    if (!shard.breaker.admits(startMs)) return decide('breaker-open')
    return new Promise<T>((resolve, reject) => {
      const parts = { shard, startMs, decide, remember }
      new GuardedCall<T>(this.#owner, parts, { resolve, reject }).run(run)
    })
  }

  /** An outage is a process warning as well, so that it is never silent. A misuse has its own. */
  #observing(observer: Observer): Observer {
    let isMisuse = false
    return (event) => {
      observer(event)
      if (event.type === 'misused') isMisuse = true
      if (event.type !== 'degraded') return
      if (!isMisuse) this.#warnOfOutage(event.reason, this.#bounded.times?.())
      isMisuse = false
    }
  }

  #ownerOfCalls(): CallOwner {
    return {
      onValue: ({ parts, caller, isProbe }, value) => {
        parts.shard.breaker.succeed(parts.startMs, isProbe)
        try {
          parts.remember?.(value)
          caller.resolve(value)
        } catch (error) {
          caller.reject(error)
        }
      },
      onError: ({ parts, caller, isProbe }, error) => {
        const reason = this.#reasonOf(error, parts.shard.breaker, isProbe)
        if (reason === undefined) caller.reject(error)
        else settle(caller, () => parts.decide(reason))
      },
    }
  }

  /** Why a call failed; undefined if it is the caller's own mistake, which the caller gets. */
  #reasonOf(error: unknown, breaker: Breaker, isProbe: boolean): Reason | undefined {
    const code = error instanceof TidegateError ? error.code : 'store-failed'
    switch (code) {
      case 'store-timeout':
        breaker.fail(steadyClock.now(), isProbe)
        return 'timeout'
      case 'store-unreachable':
        breaker.fail(steadyClock.now(), isProbe)
        return 'unreachable'
      case 'store-failed':
        breaker.fail(steadyClock.now(), isProbe)
        return 'store-error'
      case 'store-misused':
        breaker.ignore(isProbe)
        this.#warn(error as TidegateError)
        this.#observer({ type: 'misused', error: error as TidegateError })
        return 'store-error'
      case 'overloaded':
        breaker.ignore(isProbe)
        return 'overloaded'
      default:
        breaker.ignore(isProbe)
        return undefined
    }
  }

  #decide(
    group: readonly Charge[],
    mode: ChargeMode,
    reason: Reason,
    { breaker }: Shard,
  ): readonly Decision[] {
    return this.#fallback.decide(group, mode, reason, breaker.waitMs(steadyClock.now()))
  }

  #remember(group: ReadonlyArray<Charge | Adjustment>, decisions: readonly Decision[]): void {
    for (const [at, counter] of group.entries()) {
      if (!this.#isLocal(counter.limit)) continue
      this.#local.remember(counter, decisions[at] as Decision)
    }
  }

  /** True if the limit may be enforced here. */
  #isLocal({ onStoreError, onOverload }: Limit): boolean {
    const settings = this.#settings
    if ((onStoreError ?? settings.onStoreError) === 'local') return true
    return (onOverload ?? settings.onOverload) === 'local'
  }

  #shardOf(group: readonly Counter[]): Shard {
    const [first] = group
    if (this.#store.shardOf === undefined || first === undefined) return this.#onlyShard
    return this.#shard(this.#store.shardOf(first))
  }

  #shard(name: string): Shard {
    const known = this.#shards.get(name)
    if (known !== undefined) return known
    if (this.#shards.size >= SHARDS_MAX) return this.#onlyShard
    const shard = this.#newShard(name)
    this.#shards.set(name, shard)
    return shard
  }

  #newShard(name: string): Shard {
    const breaker = new Breaker(this.#settings.breaker, (from, to, openMs) => {
      const pause = to === 'open' ? { openMs } : undefined
      this.#observer({ type: 'breaker', shard: name, from, to, ...pause })
      const nowMs = steadyClock.now()
      if (to !== 'closed') {
        shard.downSinceMs ??= nowMs
        return
      }
      const outageMs = nowMs - (shard.downSinceMs ?? nowMs)
      shard.downSinceMs = undefined
      this.#observer({ type: 'recovered', shard: name, outageMs })
    })
    const shard: Shard = { breaker, downSinceMs: undefined }
    return shard
  }
}

function settle<T>(caller: Receiver<T>, answer: () => T): void {
  try {
    caller.resolve(answer())
  } catch (error) {
    caller.reject(error)
  }
}
