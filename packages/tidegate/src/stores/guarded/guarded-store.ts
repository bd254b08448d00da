/**
 * The guarded store: a store that always answers. It stands in front of one that can fail, and is
 * the only place where such failures are handled.
 *
 * The store itself bounds how long a call may take; timed-store.ts does it for a store that cannot.
 * The limit's `onStoreError` decides about a call that fails, its `onOverload` about a call that
 * could not be sent in time, and the decision reports it. A circuit breaker per shard keeps calls
 * away from a store that is down; overload never changes it. Mistakes in the configuration
 * (permissions, types, slots) are not an outage: they are reported to the observer and as a process
 * warning, and never open the breaker.
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
  Callback,
  Charge,
  ChargeMode,
  Counter,
  MaybePromise,
  Store,
  StoreCapabilities,
} from '../store.ts'
import { Fallback } from './fallback.ts'
import {
  type GuardedOptions,
  type GuardedSettings,
  parseGuardedOptions,
} from './guarded-options.ts'
import { LocalShares } from './local/local-shares.ts'
import { Membership } from './local/membership.ts'
import { misconfigurationWarning } from './misconfiguration-warning.ts'
import { outageWarning } from './outage-warning.ts'
import { type Shard, Shards } from './shards.ts'
import { TimedStore } from './timed-store.ts'

type Reason = Degraded['reason']

/** Guards a store with the given options. Closing it closes the store. */
export function guardedStore(store: Store, options: GuardedOptions = {}): Store {
  refuseGuarded(store, 'guardedStore')
  return new Guarded(store, parseGuardedOptions(options, 'guardedStore'), true)
}

/** Guards a store for one limiter with options of its own. Closing it leaves the store open. */
export function ownGuard(store: Store, options: GuardedOptions): Store {
  refuseGuarded(store, 'createLimiter.store')
  return new Guarded(store, parseGuardedOptions(options, 'createLimiter'), false)
}

/** Refuses a second guard: the inner one would decide, and the outer options have no effect. */
function refuseGuarded(store: Store, path: string): void {
  if (!isGuarded(store)) return
  const allowed = 'a store that is not guarded yet, or no options for its guard'
  throw invalid('invalid-option', { path, value: store, allowed })
}

export function isGuarded(store: Store): boolean {
  return store instanceof Guarded
}

class Guarded implements Store {
  readonly isRemote = true
  readonly front: Store['front']
  readonly capabilities: StoreCapabilities
  /** The store as given, for calls without a deadline. */
  readonly #store: Store
  /** The store with the bounds of this guard. */
  readonly #bounded: Store
  readonly #settings: GuardedSettings
  readonly #observer: Observer
  readonly #shards: Shards
  readonly #membership: Membership
  readonly #local: LocalShares
  readonly #fallback: Fallback
  readonly #warn = misconfigurationWarning()
  readonly #warnOfOutage = outageWarning()
  readonly #closesStore: boolean

  constructor(store: Store, settings: GuardedSettings, closesStore: boolean) {
    const { bounded, heartbeat, shardOf, times: _, ...others } = store.capabilities ?? {}
    const own = bounded?.(settings.bounds) ?? new TimedStore(store, settings.bounds)
    const { times } = own.capabilities ?? {}
    this.front = store.front
    this.capabilities = {
      ...others,
      ...(shardOf === undefined ? undefined : { shardOf }),
      ready: (timeoutMs) => this.#ready(timeoutMs),
      ...(times === undefined ? undefined : { times }),
    }
    this.#store = store
    this.#bounded = own
    this.#closesStore = closesStore
    this.#settings = settings
    this.#observer = this.#observing(safely(settings.observer))
    this.#shards = new Shards(shardOf, settings.breaker, this.#observer)
    this.#membership = new Membership(heartbeat, (count) =>
      this.#observer({ type: 'nodes', count }),
    )
    this.#local = new LocalShares(() => settings.nodes ?? this.#membership.count)
    this.#fallback = new Fallback(settings, this.#local, this.#observer)
  }

  chargeOne(counter: Counter, cost: number, done: Callback): Decision | undefined {
    const hasLocal = this.#isLocal(counter.limit)
    if (hasLocal) this.#startMembership()
    const shard = this.#shards.of(counter)
    const startMs = done.startMs ?? steadyClock.now()
    if (!shard.breaker.admits(startMs)) return this.decideOne(counter, cost, 'breaker-open', shard)
    const call = new GuardedCharge(this, shard, startMs, counter, cost, hasLocal, done)
    try {
      const decision = this.#bounded.chargeOne(counter, cost, call)
      if (decision !== undefined) call.resolve(decision)
    } catch (error) {
      call.reject(error)
    }
    return undefined
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    const shard = this.#shards.of(group[0])
    const hasLocal = group.some(({ limit }) => this.#isLocal(limit))
    if (hasLocal) this.#startMembership()
    return this.#call(
      shard,
      () => this.#bounded.charge(group, mode),
      (reason) => this.#decide(group, mode, reason, shard),
      hasLocal ? (decisions) => this.#remember(group, decisions) : undefined,
    )
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    return this.#call(
      this.#shards.of(group[0]),
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

  async close(): Promise<void> {
    await this.#membership.stop()
    if (this.#closesStore) await this.#store.close()
  }

  /** Decides about a single charge without the store. */
  decideOne(counter: Counter, cost: number, reason: Reason, shard: Shard): Decision {
    return this.#decide([{ ...counter, cost }], 'all', reason, shard)[0] as Decision
  }

  /** Takes note of the store's decision about a single charge. */
  rememberOne(counter: Counter, cost: number, decision: Decision): void {
    this.#local.remember({ ...counter, cost }, decision)
  }

  async #ready(timeoutMs = this.#settings.bounds.connectMs): Promise<void> {
    await this.#store.capabilities?.ready?.(timeoutMs)
    const times = this.#bounded.capabilities?.times?.()
    const isTooFar = times?.roundTripMs !== undefined && times.roundTripMs >= times.deadlineMs
    if (isTooFar) this.#warnOfOutage('timeout', times)
  }

  /** Returns the decision without a promise if the breaker is open. */
  #call<T>(
    shard: Shard,
    run: () => MaybePromise<T>,
    decide: (reason: Reason) => T,
    remember?: (value: T) => void,
  ): MaybePromise<T> {
    const startMs = steadyClock.now()
    if (!shard.breaker.admits(startMs)) return decide('breaker-open')
    return new Promise<T>((resolve, reject) => {
      const done = { resolve, reject }
      const call = new GuardedCall<T>(this, shard, startMs, decide, remember, done)
      try {
        const answer = run()
        if (!(answer instanceof Promise)) call.resolve(answer)
        else answer.then(call.resolve.bind(call), call.reject.bind(call))
      } catch (error) {
        call.reject(error)
      }
    })
  }

  /** Emits an outage as a process warning too, so that it is never silent. */
  #observing(observer: Observer): Observer {
    let isMisconfigured = false
    return (event) => {
      observer(event)
      if (event.type === 'misconfigured') isMisconfigured = true
      if (event.type !== 'degraded') return
      if (!isMisconfigured) this.#warnOfOutage(event.reason, this.#bounded.capabilities?.times?.())
      isMisconfigured = false
    }
  }

  /** Why a call failed; undefined for a mistake of the caller, which is rejected. */
  reasonOf(error: unknown, { shard, startMs, isProbe }: Begun): Reason | undefined {
    const { breaker } = shard
    const code = error instanceof TidegateError ? error.code : 'store-failed'
    switch (code) {
      case 'store-timeout':
        breaker.fail(steadyClock.now(), isProbe, startMs)
        return 'timeout'
      case 'store-unreachable':
        breaker.fail(steadyClock.now(), isProbe)
        return 'unreachable'
      case 'store-failed':
        breaker.fail(steadyClock.now(), isProbe)
        return 'store-error'
      case 'store-misconfigured':
        breaker.ignore(isProbe)
        this.#warn(error as TidegateError)
        this.#observer({ type: 'misconfigured', error: error as TidegateError })
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

  /** True if the limit may be enforced in this process. */
  #isLocal({ onStoreError, onOverload }: Limit): boolean {
    const settings = this.#settings
    if ((onStoreError ?? settings.onStoreError) === 'local') return true
    return (onOverload ?? settings.onOverload) === 'local'
  }

  #startMembership(): void {
    if (this.#settings.nodes === undefined) this.#membership.start()
  }
}

/** The beginning of a call to a store that can fail. */
interface Begun {
  readonly shard: Shard
  readonly startMs: number
  /** True if it finds out for other calls whether the store is back. */
  readonly isProbe: boolean
}

/** A call to a store that can fail. Its first outcome counts. */
class GuardedCall<T> implements Begun, Callback<T> {
  readonly shard: Shard
  readonly startMs: number
  readonly isProbe: boolean
  readonly #decide: (reason: Reason) => T
  readonly #remember: ((value: T) => void) | undefined
  readonly #done: Callback<T>
  readonly #guard: Guarded
  #isSettled = false

  constructor(
    guard: Guarded,
    shard: Shard,
    startMs: number,
    decide: (reason: Reason) => T,
    remember: ((value: T) => void) | undefined,
    done: Callback<T>,
  ) {
    this.#guard = guard
    this.shard = shard
    this.startMs = startMs
    this.isProbe = shard.breaker.state !== 'closed'
    this.#decide = decide
    this.#remember = remember
    this.#done = done
  }

  resolve(value: T): void {
    if (this.#isSettled) return
    this.#isSettled = true
    this.shard.breaker.succeed(this.startMs, this.isProbe)
    settle(this.#done, () => {
      this.#remember?.(value)
      return value
    })
  }

  reject(error: unknown): void {
    if (this.#isSettled) return
    this.#isSettled = true
    const reason = this.#guard.reasonOf(error, this)
    if (reason === undefined) this.#done.reject(error)
    else settle(this.#done, () => this.#decide(reason))
  }
}

/** Like `GuardedCall`, for a single charge: without functions that are made for each call. */
class GuardedCharge implements Begun, Callback {
  readonly shard: Shard
  readonly startMs: number
  readonly isProbe: boolean
  readonly #guard: Guarded
  readonly #counter: Counter
  readonly #cost: number
  readonly #hasLocal: boolean
  readonly #done: Callback
  #isSettled = false

  constructor(
    guard: Guarded,
    shard: Shard,
    startMs: number,
    counter: Counter,
    cost: number,
    hasLocal: boolean,
    done: Callback,
  ) {
    this.#guard = guard
    this.shard = shard
    this.startMs = startMs
    this.isProbe = shard.breaker.state !== 'closed'
    this.#counter = counter
    this.#cost = cost
    this.#hasLocal = hasLocal
    this.#done = done
  }

  resolve(decision: Decision): void {
    if (this.#isSettled) return
    this.#isSettled = true
    this.shard.breaker.succeed(this.startMs, this.isProbe)
    if (this.#hasLocal) {
      settle(this.#done, () => {
        this.#guard.rememberOne(this.#counter, this.#cost, decision)
        return decision
      })
    } else this.#done.resolve(decision)
  }

  reject(error: unknown): void {
    if (this.#isSettled) return
    this.#isSettled = true
    const reason = this.#guard.reasonOf(error, this)
    if (reason === undefined) this.#done.reject(error)
    else {
      settle(this.#done, () => this.#guard.decideOne(this.#counter, this.#cost, reason, this.shard))
    }
  }
}

function settle<T>(done: Callback<T>, answer: () => T): void {
  let value: T
  try {
    value = answer()
  } catch (error) {
    done.reject(error)
    return
  }
  done.resolve(value)
}
