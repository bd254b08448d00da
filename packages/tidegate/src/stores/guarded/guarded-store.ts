/**
 * The guarded store: a store that always answers, and on time. It stands in front of one that can
 * fail, and is the only place where such failures are handled.
 *
 * A call that is not answered within the deadline, or fails, is decided by what each limit declares
 * in `onStoreError`, and the decision says so. A circuit breaker per shard keeps calls from a store
 * that is down. Mistakes in the set-up (permissions, types, slots) are no outage: they are told to
 * the observer and as a process warning, and never open the breaker.
 *
 * Nothing is ever sent twice: whether a call that timed out was charged stays unknown.
 */

import { LEASE_MARK } from '../../algorithms/holds.ts'
import { type Limit, mostOf } from '../../algorithms/limit.ts'
import { steadyClock } from '../../clock.ts'
import type { Decision, Degraded } from '../../decision.ts'
import { invalid, TidegateError } from '../../errors.ts'
import { type Observer, safely } from '../../observer.ts'
import { Deadlines } from '../deadlines.ts'
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
import { closedDecision, impossibleDecision, openDecision, sparedDecision } from './fallback.ts'
import { type CallOwner, type CallParts, GuardedCall } from './guarded-call.ts'
import {
  type GuardedOptions,
  type GuardedSettings,
  parseGuardedOptions,
} from './guarded-options.ts'
import { LocalShares } from './local-shares.ts'
import { Membership } from './membership.ts'
import { misuseWarning } from './misuse-warning.ts'
import type { Shard } from './shard.ts'

type Reason = Degraded['reason']

/**
 * Calls under way. With a server that hangs they pile up for one deadline only; more than this is a
 * flood that waiting would only make worse. Each takes about 500 bytes.
 */
const CALLS_MAX = 20_000

/** Shards that are told apart; a cluster has at most 1,000 nodes. */
const SHARDS_MAX = 1_000

/** What a client is told to wait at least, where the limiter is unavailable. */
const CLOSED_RETRY_MS_MIN = 1_000

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
  readonly #store: Store
  readonly #settings: GuardedSettings
  readonly #observer: Observer
  readonly #owner: CallOwner
  readonly #shards = new Map<string, Shard>()
  readonly #onlyShard: Shard
  readonly #membership: Membership
  readonly #local: LocalShares
  readonly #warn = misuseWarning()
  readonly #closesStore: boolean
  #calls = 0

  constructor(store: Store, settings: GuardedSettings, closesStore: boolean) {
    this.#store = store
    this.#closesStore = closesStore
    this.#settings = settings
    this.#observer = safely(settings.observer)
    this.#owner = this.#ownerOfCalls(new Deadlines(settings.deadlineMs))
    this.#onlyShard = this.#newShard('')
    this.#membership = new Membership(store, (count) => this.#observer({ type: 'nodes', count }))
    this.#local = new LocalShares(() => settings.nodes ?? this.#membership.count)
  }

  charger(name: string, limit: Limit): (key: string, cost: number) => MaybePromise<Decision> {
    const tell = this.teller(name, limit)
    if (tell !== undefined) {
      return (key, cost) => new Promise((resolve, reject) => tell(key, cost, { resolve, reject }))
    }
    const charge = this.#store.charger?.(name, limit)
    if (charge === undefined || this.#modeOf(limit) === 'local') {
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
    const tell = this.#store.teller?.(name, limit)
    if (tell === undefined || this.#modeOf(limit) === 'local') return undefined
    const shardOf = this.#store.shardOf?.bind(this.#store)
    return (key: string, cost: number, receiver: Receiver) => {
      const startMs = steadyClock.now()
      const shard =
        shardOf === undefined ? this.#onlyShard : this.#shard(shardOf({ name, limit, key }))
      const decide = (reason: Reason) =>
        this.#decide([{ name, limit, key, cost }], 'all', reason, shard)[0] as Decision
      const reason = this.#refusal(shard, startMs)
      if (reason !== undefined) {
        settle(receiver, () => decide(reason))
        return
      }
      const call = this.#begin({ shard, startMs, decide, remember: undefined }, receiver)
      try {
        tell(key, cost, call)
      } catch (error) {
        call.reject(error)
      }
    }
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    const shard = this.#shardOf(group)
    const hasLocal = group.some(({ limit }) => this.#modeOf(limit) === 'local')
    if (hasLocal && this.#settings.nodes === undefined) this.#membership.start()
    return this.#call(
      shard,
      () => this.#store.charge(group, mode),
      (reason) => this.#decide(group, mode, reason, shard),
      hasLocal ? (decisions) => this.#remember(group, decisions) : undefined,
    )
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    return this.#call(
      this.#shardOf(group),
      () => this.#store.adjust(group),
      (reason) => this.#adjustHere(group, reason),
      (decisions) => this.#remember(group, decisions),
    )
  }

  /** Told as it is: whoever resets must know whether it was done. */
  reset(group: readonly Counter[]): MaybePromise<void> {
    this.#local.reset(group)
    return this.#store.reset(group)
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

  /** Decides at once where nothing is to be sent. */
  #call<T>(
    shard: Shard,
    run: () => MaybePromise<T>,
    decide: (reason: Reason) => T,
    remember?: (value: T) => void,
  ): MaybePromise<T> {
    const startMs = steadyClock.now()
    const reason = this.#refusal(shard, startMs)
    if (reason !== undefined) return decide(reason)
    return new Promise<T>((resolve, reject) => {
      this.#begin({ shard, startMs, decide, remember }, { resolve, reject }).run(run)
    })
  }

  /** Why nothing is to be sent; undefined where a call is to begin. */
  #refusal({ breaker }: Shard, nowMs: number): Reason | undefined {
    if (!breaker.admits(nowMs)) return 'breaker-open'
    if (this.#calls < CALLS_MAX) return undefined
    breaker.ignore(breaker.state !== 'closed')
    return 'overloaded'
  }

  #begin<T>(parts: CallParts<T>, caller: Receiver<T>): GuardedCall<T> {
    this.#calls++
    return new GuardedCall<T>(this.#owner, parts, caller)
  }

  #ownerOfCalls(deadlines: Deadlines): CallOwner {
    return {
      deadlines,
      onValue: ({ parts, caller, isProbe }, value) => {
        parts.shard.breaker.succeed(parts.startMs, isProbe)
        this.#calls--
        try {
          parts.remember?.(value)
          caller.resolve(value)
        } catch (error) {
          caller.reject(error)
        }
      },
      onError: ({ parts, caller, isProbe }, error) => {
        const reason = this.#reasonOf(error, parts.shard.breaker, isProbe)
        this.#calls--
        if (reason === undefined) caller.reject(error)
        else settle(caller, () => parts.decide(reason))
      },
      onLate: ({ parts, caller, isProbe }, isStalled) => {
        const { breaker } = parts.shard
        if (isStalled) breaker.ignore(isProbe)
        else breaker.fail(steadyClock.now(), isProbe)
        this.#calls--
        settle(caller, () => parts.decide('timeout'))
      },
    }
  }

  /** Why a call failed; undefined where it is the caller's own mistake, for the caller to see. */
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

  /** A group without the store: what is closed refuses, what is local is judged here. */
  #decide(
    group: readonly Charge[],
    mode: ChargeMode,
    reason: Reason,
    shard: Shard,
  ): readonly Decision[] {
    const [first] = group
    if (first?.hold?.id.startsWith(LEASE_MARK)) return [this.#declineLease(first, reason)]
    const modes = group.map(({ limit }) => this.#modeOf(limit))
    const hasClosed = modes.includes('closed')
    const waitMs = Math.max(CLOSED_RETRY_MS_MIN, Math.ceil(shard.breaker.waitMs(steadyClock.now())))
    const shares = group.filter((_, at) => modes[at] === 'local')
    const isImpossible = group.some((charge) => isNeverGranted(charge, mode))
    const localMode = hasClosed || isImpossible ? 'peek' : mode
    const local = shares.length === 0 ? [] : this.#local.charge(shares, localMode)
    const isRefused = hasClosed || isImpossible || local.some(({ allowed }) => !allowed)
    let next = 0
    const decisions = group.map((charge, at): Decision => {
      switch (modes[at]) {
        case 'closed':
          return closedDecision(charge, reason, waitMs)
        case 'local':
          return { ...(local[next++] as Decision), degraded: { reason, mode: 'local' } }
        default:
          if (isNeverGranted(charge, mode)) return impossibleDecision(charge, reason)
          return isRefused || mode === 'peek'
            ? sparedDecision(charge, reason, 'open')
            : openDecision(charge, reason)
      }
    })
    const worst = hasClosed ? 'closed' : local.length > 0 ? 'local' : 'open'
    const limits = group.map(({ name }) => name)
    this.#observer({ type: 'degraded', reason, mode: worst, allowed: !isRefused, limits })
    return decisions
  }

  /** No block can be had without the store; what was spent of the one before counts here. */
  #declineLease({ name, limit, key, cost, settles }: Charge, reason: Reason): Decision {
    const mode = this.#modeOf(limit)
    const units = settles?.units ?? 0
    if (mode === 'local' && units > 0) this.#local.adjust([{ name, limit, key, units }])
    return { ...sparedDecision({ name, limit, key, cost }, reason, mode), allowed: false }
  }

  /** Given back or added where it is known here. The store hears nothing of it. */
  #adjustHere(group: readonly Adjustment[], reason: Reason): readonly Decision[] {
    return group.map((adjustment) => {
      const mode = this.#modeOf(adjustment.limit)
      if (mode !== 'local') return sparedDecision({ ...adjustment, cost: 0 }, reason, mode)
      const [decision] = this.#local.adjust([adjustment])
      return { ...(decision as Decision), degraded: { reason, mode } }
    })
  }

  #remember(group: ReadonlyArray<Charge | Adjustment>, decisions: readonly Decision[]): void {
    for (const [at, counter] of group.entries()) {
      if (this.#modeOf(counter.limit) !== 'local') continue
      this.#local.remember(counter, decisions[at] as Decision)
    }
  }

  #modeOf(limit: Limit) {
    return limit.onStoreError ?? this.#settings.onStoreError
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

/** With a store or without: more than the limit can ever give, of which a part would do. */
function isNeverGranted({ limit, cost }: Charge, mode: ChargeMode): boolean {
  return (mode === 'partial' ? Math.min(cost, 1) : cost) > mostOf(limit)
}

function settle<T>(caller: Receiver<T>, answer: () => T): void {
  try {
    caller.resolve(answer())
  } catch (error) {
    caller.reject(error)
  }
}
