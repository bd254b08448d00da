/**
 * The limiter as its callers see it: from keys and a cost to a decision. create-limiter.ts makes
 * one, store-limiter.ts implements it.
 */

import type { Limit } from '../algorithms/limit.ts'
import type { Clock } from '../clock.ts'
import type { Decision } from '../decision.ts'
import type { LimitRule } from '../limits/limits.ts'
import type { Meter } from '../observer.ts'
import type { GuardedOptions } from '../stores/guarded/guarded-options.ts'
import type { HotKey, Store } from '../stores/store.ts'
import type { Reservation, Slot } from './reservation.ts'
import type { WaitOptions } from './wait-queue.ts'

/** The options of a guarded store apply only if the store is remote. */
export interface LimiterOptions extends GuardedOptions {
  /** Where the counters are. Default: this process's memory. */
  readonly store?: Store
  /** Default: the system's. */
  readonly clock?: Clock
  /** False admits everything without counting. Default: true, or the environment's setting. */
  readonly enabled?: boolean
  /** Counts decisions, commands and events: `limiterMetrics().meter` of `tidegate/metrics`. */
  readonly meter?: LimiterMeter
}

/** The port for metrics of limiters. */
export interface LimiterMeter extends Meter {
  /** Returns the store with its decisions counted. */
  metered(store: Store): Store
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
  /** Decided together, all or nothing. */
  readonly limits: Readonly<Record<Name, Limit | LimitRule<Context>>>
  /**
   * The limit that the others belong to, such as the organisation of a user: their counters are
   * then those of that organisation's user, and lie in the same slot of a Redis Cluster.
   */
  readonly within?: NoInfer<Name>
  /** With `within`: limits that do not belong to it, such as one that all keys share. */
  readonly shared?: ReadonlyArray<NoInfer<Name>>
}

/** Passed to limits that are functions; required if one of them takes a context. */
export type ContextOptions<Context = unknown> = undefined extends Context
  ? { readonly context?: Context }
  : { readonly context: Context }

export type CostOptions<Context = unknown> = ContextOptions<Context> & {
  /** Whole units to charge; 0 changes nothing. Default: 1. */
  readonly cost?: number
}

export type CheckOptions<Context = unknown> = CostOptions<Context> & {
  /** Grant the units that are left, instead of all or nothing. */
  readonly partial?: boolean
}

export type ReserveOptions<Context = unknown> = ContextOptions<Context> & {
  /** How long the units stay set aside if they are not settled. Default: one minute. */
  readonly ttlMs?: number
}

/** The last argument of a call, which can be left out if no limit takes a context. */
type Last<Context, Options> = undefined extends Context ? [options?: Options] : [options: Options]

/** Like `Last`, for a call with an optional cost before it. */
type CostAndLast<Context, Options> = undefined extends Context
  ? [cost?: number, options?: Options]
  : [cost: number | undefined, options: Options]

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
  /** True if it takes one key per limit instead of a single key. */
  readonly layered: boolean
  /** Decides and charges. */
  check(keys: Keys, ...options: Last<Context, CheckOptions<Context>>): Promise<D>
  /** `check` without a promise; only on the memory store, and if no limit is asynchronous. */
  checkSync(keys: Keys, ...options: Last<Context, CheckOptions<Context>>): D
  /** Returns the units left, and if `cost` would be granted. Changes nothing. */
  peek(keys: Keys, ...options: Last<Context, CostOptions<Context>>): Promise<D>
  /** Gives units back, never below nothing used. */
  refund(keys: Keys, ...costAndOptions: CostAndLast<Context, ContextOptions<Context>>): Promise<D>
  /** Forgets used and held units. */
  reset(keys: Keys, ...options: Last<Context, ContextOptions<Context>>): Promise<void>
  /** Sets units aside until they are committed, cancelled, or expire. */
  reserve(
    keys: Keys,
    cost: number,
    ...options: Last<Context, ReserveOptions<Context>>
  ): Promise<Reservation<D>>
  /** Takes a slot of each concurrency limit, and charges 1 to every other. */
  acquire(keys: Keys, ...options: Last<Context, ContextOptions<Context>>): Promise<Slot<D>>
  /**
   * Waits for its turn and resolves when admitted; denied if the time or the queue is too short.
   */
  wait(keys: Keys, ...options: Last<Context, CostOptions<Context> & WaitOptions>): Promise<D>
  /** False while limiting is turned off. */
  readonly enabled: boolean
  /** Turns limiting off, so that everything is admitted without counting, or on again. */
  setEnabled(enabled: boolean): void
  /** On a remote store, the ten keys with the most calls in the last second. */
  hotKeys(): readonly HotKey[]
  /** Like `check`, and returns the limits that applied, which a middleware needs for headers. */
  evaluate(keys: Keys, ...options: Last<Context, CheckOptions<Context>>): Promise<Evaluation<D>>
  /**
   * Resolves when the store has answered once; rejects with the last error if it has not within
   * `connectMs`. In memory it is always ready.
   */
  ready(): Promise<void>
  close(): Promise<void>
}
