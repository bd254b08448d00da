/**
 * The contract of a store: it keeps the units that were used, and decides about charges.
 *
 * Atomicity: a group is decided and charged in one step that no other call can interrupt; either
 * all of its charges are made or none. Clock: the store's own, in whole milliseconds; callers pass
 * no time. Keys: a counter is identified by a name, an algorithm and a key; a group contains each
 * counter at most once. Failure: a store rejects, it never guesses; its caller decides how to go
 * on. Every counter is forgotten when it no longer matters. `storeContract` is this contract as
 * tests.
 */

import type { Limit } from '../algorithms/limit.ts'
import type { Decision } from '../decision.ts'
import type { CallBounds } from './call-bounds.ts'
import type { GuardedOptions } from './guarded/guarded-options.ts'

export type MaybePromise<T> = T | Promise<T>

export interface Counter {
  /** The limit's name, which separates the counters of several limits on the same key. */
  readonly name: string
  readonly limit: Limit
  readonly key: string
  /**
   * The key that the counters of a group share, so that a store with several nodes can keep them
   * on one node. It is part of the counter's identity.
   */
  readonly within?: string
}

export interface Charge extends Counter {
  /** Whole units; 0 changes nothing. */
  readonly cost: number
  /**
   * Sets the units aside under an id instead of charging them. They are free again after `ttlMs`.
   * An id that begins with `!` is a lease: its units are charged after `ttlMs`, because the holder
   * may have spent them. Ids have at most 36 characters.
   */
  readonly hold?: { readonly id: string; readonly ttlMs: number }
  /**
   * Drops a hold and charges the units that were spent of it, before the charge is decided, also if
   * that is denied. The charge is denied if the hold is unknown. Only for a group of one, in the
   * mode `partial`.
   */
  readonly settles?: { readonly release: string; readonly units: number }
}

/**
 * `all` grants everything or nothing. `partial` grants to every charge the largest number of units
 * that all of them can have. `peek` decides as `all` would and changes nothing.
 */
export type ChargeMode = 'all' | 'partial' | 'peek'

export interface Adjustment extends Counter {
  /** Units to add without a decision. Negative units are given back, never below nothing used. */
  readonly units: number
  /** A hold to drop in the same step. An expired hold is ignored. */
  readonly release?: string
  /**
   * A hold to prolong in the same step, instead of `release`: it lasts for `ttlMs` from now on. The
   * decision is not `allowed` if the hold has expired or was dropped. Such a hold is not revived,
   * because its units may belong to another holder.
   */
  readonly renews?: { readonly id: string; readonly ttlMs: number }
}

/** Callbacks for a pending decision. Exactly one is called, once. */
export interface Callback<T = Decision> {
  /**
   * When the call began, in milliseconds of the steady clock. A caller that has read the clock sets
   * it, so that the stores behind it need not read it again.
   */
  readonly startMs?: number | undefined
  resolve(value: T): void
  reject(error: unknown): void
}

export interface StoreTimes {
  /** Undefined before the first answer. */
  readonly roundTripMs: number | undefined
  readonly deadlineMs: number
  /** Charges that wait to be sent, if the store queues them. */
  readonly waiting?: number
}

/** The number of keys that this process answers for without the store. */
export interface HeldKeys {
  /** Keys with leased units. */
  readonly leases: number
  /** Denials that still hold. */
  readonly denials: number
}

/** A key that is used often, with the number of its calls within the last second. */
export interface HotKey {
  /** The name of its limit. */
  readonly name: string
  readonly key: string
  readonly perSecond: number
}

/** Features that only some stores have. */
export interface StoreCapabilities {
  /** True if the store supports leases, and `settles` of a charge. */
  readonly leases?: boolean

  /** True if the store can decide about the group in one step. A store without it always can. */
  sameShard?(group: readonly Counter[]): boolean

  /** The server that keeps a counter, for stores whose servers fail independently. */
  shardOf?(counter: Counter): string

  /**
   * Registers a process for `lifetimeMs` and returns the number of registered processes. A lifetime
   * of 0 ends the registration.
   */
  heartbeat?(id: string, lifetimeMs: number): Promise<number>

  /**
   * Resolves when the store has answered once, with its connections open; rejects with the last
   * error after `timeoutMs`. A store without it is always ready.
   */
  ready?(timeoutMs?: number): Promise<void>

  /**
   * Returns a view of the same counters for a caller that cannot wait. Its calls reject with
   * `store-timeout` if the server stays silent, and with `overloaded` if they waited too long or
   * too many wait; an overloaded call was not sent and charged nothing. A store without it does not
   * queue calls.
   */
  bounded?(bounds: CallBounds): Store

  /** The latest round trip to the server, the deadline in force and the queue, for operators. */
  times?(): StoreTimes

  /** The keys that are decided about without the store. */
  held?(): HeldKeys

  /** The keys with the most calls within the last second, in descending order. */
  hotKeys?(): readonly HotKey[]

  /**
   * The units of a counter that this process has leased and not spent. The store behind it counts
   * them as used; a peek of this process does not.
   */
  leasedOf?(counter: Counter): number
}

export interface Store {
  /** True if the store is outside of this process and can fail. Others answer without promises. */
  readonly isRemote: boolean

  /**
   * Returns the store with a guard and leases in front of it: `frontStore`. Limiters require it of
   * a remote store. Programs without a remote store do not contain the code of guards and leases.
   */
  readonly front?: ((store: Store, options?: GuardedOptions) => Store) | undefined

  readonly capabilities?: StoreCapabilities

  /** Returns one decision per charge, in order. If any is denied, nothing is charged. */
  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]>

  /**
   * Charges one counter like `charge` with a group of one in the mode `all`, without a group and a
   * promise, which saves allocations. Returns the decision if it is known immediately, as it always
   * is in a store that is not remote. Otherwise it returns undefined and calls `done` once, or it
   * throws. `chargeOneAsGroup` implements it by `charge`.
   */
  chargeOne(counter: Counter, cost: number, done: Callback): Decision | undefined

  /** Returns for each adjustment the decision of a peek after it. */
  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]>

  /** Forgets used and held units. */
  reset(group: readonly Counter[]): MaybePromise<void>

  close(): MaybePromise<void>
}
