/**
 * The limiter: from keys and a cost to a decision. Here is what it offers and how it is made;
 * store-limiter.ts is how it does it.
 */

import type { Limit } from './algorithms/limit.ts'
import { type Clock, systemClock } from './clock.ts'
import type { Decision, LayeredDecision } from './decision.ts'
import { invalid } from './errors.ts'
import { type KeyShape, layeredKeys, singleKey, type Within } from './keys.ts'
import { isLimitingEnabled } from './kill-switch.ts'
import { registerLimits } from './limit-registry.ts'
import type { LimitRule } from './policy/limits.ts'
import { checkFunction, checkOptions } from './policy/options.ts'
import type { Reservation, Slot } from './reservation.ts'
import { StoreLimiter } from './store-limiter.ts'
import {
  type GuardedOptions,
  guardedOptionNames,
  parseGuardedOptions,
} from './stores/guarded/guarded-options.ts'
import { ownGuard, sharedGuard } from './stores/guarded/guarded-store.ts'
import { type HotKey, LeasedStore } from './stores/leased/leased-store.ts'
import { SplitStore } from './stores/leased/split-store.ts'
import { SpreadStore } from './stores/leased/spread-store.ts'
import { memoryStore } from './stores/memory/memory-store.ts'
import type { Store } from './stores/store.ts'
import type { WaitOptions } from './wait-queue.ts'

/** What belongs to a guarded store matters only where the store is remote. */
export interface LimiterOptions extends GuardedOptions {
  /** Where the counters are. Default: this process's memory. */
  readonly store?: Store
  /** Default: the system's. */
  readonly clock?: Clock
  /** False admits everything without counting. Default: true, unless the environment says so. */
  readonly enabled?: boolean
}

export interface SingleLimitOptions<Context = unknown> extends LimiterOptions {
  readonly limit: Limit | LimitRule<Context>
  /**
   * The limit's name, in headers and in shared stores. Default: `default`. On one store, limits
   * that differ need different names.
   */
  readonly name?: string
}

export interface LayeredLimitOptions<Name extends string, Context = unknown>
  extends LimiterOptions {
  /** Judged together, all or nothing. */
  readonly limits: Readonly<Record<Name, Limit | LimitRule<Context>>>
  /**
   * The limit that the others belong to, such as the organisation of a user: their counters are
   * then those of that organisation's user, and lie in the same slot of a Redis Cluster.
   */
  readonly within?: NoInfer<Name>
  /** With `within`: limits that do not belong to it, such as one that everybody shares. */
  readonly shared?: ReadonlyArray<NoInfer<Name>>
}

export interface ContextOptions<Context> {
  /** Passed to limits that are functions. */
  readonly context?: Context
}

export interface CostOptions<Context> extends ContextOptions<Context> {
  /** Whole units asked for; 0 only looks. Default: 1. */
  readonly cost?: number
}

export interface CheckOptions<Context> extends CostOptions<Context> {
  /** Grant what there is, instead of all or nothing. */
  readonly partial?: boolean
}

export interface ReserveOptions<Context> extends ContextOptions<Context> {
  /** How long the units stay set aside if nobody settles them. Default: one minute. */
  readonly ttlMs?: number
}

/** One limit as it applied to one decision. */
export interface AppliedLimit {
  readonly name: string
  readonly limit: Limit
  readonly decision: Decision
}

export interface Evaluation<D extends Decision> {
  readonly decision: D
  readonly applied: readonly AppliedLimit[]
}

export interface Limiter<Keys = string, D extends Decision = Decision, Context = unknown> {
  /** The names of its limits. */
  readonly names: readonly string[]
  /** Whether it takes one key per limit instead of a single key. */
  readonly layered: boolean
  /** Judges and charges. */
  check(keys: Keys, options?: CheckOptions<Context>): Promise<D>
  /** The same at once; only on the memory store, and only where no limit is asynchronous. */
  checkSync(keys: Keys, options?: CheckOptions<Context>): D
  /** What is left, and whether `cost` would be granted. Changes nothing. */
  peek(keys: Keys, options?: CostOptions<Context>): Promise<D>
  /** Gives units back, never below nothing used. */
  refund(keys: Keys, cost?: number, options?: ContextOptions<Context>): Promise<D>
  /** Forgets what was used and held. */
  reset(keys: Keys, options?: ContextOptions<Context>): Promise<void>
  /** Sets units aside until they are committed, cancelled, or their time is over. */
  reserve(keys: Keys, cost: number, options?: ReserveOptions<Context>): Promise<Reservation<D>>
  /** Takes a slot of each concurrency limit, and charges 1 to every other. */
  acquire(keys: Keys, options?: ContextOptions<Context>): Promise<Slot<D>>
  /**
   * Waits for its turn and resolves when admitted; denied if the time or the queue is too short.
   */
  wait(keys: Keys, options?: CostOptions<Context> & WaitOptions): Promise<D>
  /** Whether it limits at all. */
  readonly enabled: boolean
  /** Turns limiting off, so that everything is admitted without counting, or on again. */
  setEnabled(enabled: boolean): void
  /** On a remote store, the ten keys that were asked for most often in the last second. */
  hotKeys(): readonly HotKey[]
  /** As `check`, and tells which limits applied: what a middleware needs for its headers. */
  evaluate(keys: Keys, options?: CheckOptions<Context>): Promise<Evaluation<D>>
  /**
   * Resolves when the store has answered once; rejects with the last error if it has not within
   * `connectMs`. In memory it is ready at once.
   */
  ready(): Promise<void>
  close(): Promise<void>
}

const optionNames = [
  ...['limit', 'limits', 'within', 'shared', 'name', 'store', 'clock', 'enabled'],
  ...guardedOptionNames,
]

export function createLimiter<Context = unknown>(
  options: SingleLimitOptions<Context>,
): Limiter<string, Decision, Context>
export function createLimiter<Name extends string, Context = unknown>(
  options: LayeredLimitOptions<Name, Context>,
): Limiter<Readonly<Record<Name, string>>, LayeredDecision<Name>, Context>
export function createLimiter<Context>(
  options: SingleLimitOptions<Context> | LayeredLimitOptions<string, Context>,
): unknown {
  checkOptions(options, 'createLimiter', optionNames)
  if ('limit' in options) refuseLayered(options)
  const { clock = systemClock } = options
  const owned = ownStore(options, clock)
  const store = owned ?? frontOf(options.store as Store)
  const observer = checkFunction(options.observer, 'createLimiter.observer')
  const isEnabled = isLimitingEnabled(options.enabled)
  const make = <Keys, D extends Decision>(shape: KeyShape<Keys, D, Context>) => {
    const unregister =
      options.store === undefined
        ? undefined
        : registerLimits(options.store, shape.names, shape.rules)
    return new StoreLimiter(shape, { store, owned, clock, isEnabled, unregister }, observer)
  }
  return 'limits' in options
    ? make(layeredKeys(options.limits, withinOf(options)))
    : make(singleKey(options.name ?? 'default', options.limit))
}

/**
 * A store with everything in front of it that a limiter puts there: a deadline, a breaker and what
 * is declared for an outage, leases for hot keys, split counters. For those who judge groups by the
 * contract of stores themselves, such as a service whose limits differ from request to request. A
 * store that is not remote needs none of it and is returned as it is. Closing it gives leases back;
 * the store itself stays the caller's to close.
 */
export function frontStore(store: Store, options: GuardedOptions = {}): Store {
  checkOptions(options, 'frontStore', guardedOptionNames)
  parseGuardedOptions(options, 'frontStore')
  if (!store.isRemote) return store
  return new SplitStore(
    new LeasedStore(new SpreadStore(ownGuard(store, options)), options.observer),
  )
}

/** A store that the limiter made for itself: memory, or what stands in front of a remote one. */
function ownStore(options: LimiterOptions, clock: Clock): Store | undefined {
  const { store } = options
  const given = Object.entries(options).filter(([name]) => guardedOptionNames.includes(name))
  const entries = given.filter(([, value]) => value !== undefined)
  // Checked also where it has no use, as memory does not fail.
  const guarded: GuardedOptions = Object.fromEntries(entries)
  parseGuardedOptions(guarded, 'createLimiter')
  if (store === undefined) return memoryStore({ clock })
  return !store.isRemote || entries.length === 0 ? undefined : frontStore(store, guarded)
}

const fronts = new WeakMap<Store, Store>()

/** What all limiters of a store without options of their own share. */
function frontOf(store: Store): Store {
  if (!store.isRemote) return store
  const guard = sharedGuard(store)
  const front =
    fronts.get(guard) ?? new SplitStore(new LeasedStore(new SpreadStore(guard), undefined))
  fronts.set(guard, front)
  return front
}

/** What only a limiter with several limits has. */
function refuseLayered(options: object): void {
  for (const [name, value] of Object.entries(options)) {
    if (!['limits', 'within', 'shared'].includes(name)) continue
    const allowed = name === 'limits' ? 'either limit or limits' : 'only with limits'
    throw invalid('invalid-option', { path: `createLimiter.${name}`, value, allowed })
  }
}

function withinOf<Context>({
  within,
  shared,
}: LayeredLimitOptions<string, Context>): Within<string> | undefined {
  if (within !== undefined) return { name: within, shared: shared ?? [] }
  if (shared === undefined) return undefined
  const place = { path: 'createLimiter.shared', value: shared, allowed: 'only with within' }
  throw invalid('invalid-option', place)
}
