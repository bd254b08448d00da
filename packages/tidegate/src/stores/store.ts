/**
 * The contract of a store: it keeps what was used, and judges groups of charges.
 *
 * Atomicity: a group is judged and charged in one step that no other call can come between; either
 * all of its charges are made or none. Clock: the store's own, in whole milliseconds; callers pass
 * no time. Keys: a counter belongs to a name, an algorithm and a key; a group names no counter
 * twice. Failure: a store rejects, it never guesses; what a failure means is decided by its caller.
 * Every counter is forgotten when it no longer matters. `storeContract` is this contract as tests.
 */

import type { Limit } from '../algorithms/limit.ts'
import type { Decision } from '../decision.ts'

export type MaybePromise<T> = T | Promise<T>

export interface Counter {
  /** The limit's name, which separates the counters of several limits on the same key. */
  readonly name: string
  readonly limit: Limit
  readonly key: string
  /**
   * What the counters of a group have in common, so that a store that is spread over several nodes
   * can keep them in one place. It is part of what the counter is.
   */
  readonly within?: string
}

export interface Charge extends Counter {
  /** Whole units; 0 only looks. */
  readonly cost: number
  /**
   * Sets the units aside under an id instead of charging them. When the time is over, they are free
   * again. Where the id begins with `!`, it is a lease: then they are charged, because its holder
   * may have spent them. Ids have at most 36 characters.
   */
  readonly hold?: { readonly id: string; readonly ttlMs: number }
  /**
   * Before it is judged, drops a hold and charges what was spent of it, also if it is denied. It is
   * denied where the hold is not known. Only for a group of one, in the mode `partial`.
   */
  readonly settles?: { readonly release: string; readonly units: number }
}

/**
 * `all` grants everything or nothing; `partial` grants to every charge the most that all can have,
 * which is the least that is left in any of them; `peek` answers as `all` would and changes
 * nothing.
 */
export type ChargeMode = 'all' | 'partial' | 'peek'

export interface Adjustment extends Counter {
  /** Units added without asking, or given back where negative, never below nothing used. */
  readonly units: number
  /** A hold to drop in the same step; one that has expired is no error. */
  readonly release?: string
}

/** Callbacks for a pending decision; exactly one is called. */
export interface Receiver<T = Decision> {
  resolve(value: T): void
  reject(error: unknown): void
}

export interface StoreTimes {
  /** Undefined if no call was answered yet. */
  readonly roundTripMs: number | undefined
  readonly deadlineMs: number
}

/** How long the calls of one caller may take, and how many may wait. */
export interface CallBounds {
  /**
   * How long the server may stay silent after a command was written to it. The time that a call
   * waits to be written, and the time in which this process was busy, does not count. Undefined
   * lets the store choose by its round trip.
   */
  readonly deadlineMs: number | undefined
  /** How long a call may wait to be written. */
  readonly queueMs: number
  /** Calls that wait to be written. */
  readonly queueMax: number
  /** How long calls wait for the first answer of a store that has never answered. */
  readonly connectMs: number
}

export interface Store {
  /** Whether it is somewhere else and can fail. One that is not answers without promises. */
  readonly isRemote: boolean

  /** One decision per charge, in order. Where any is denied, nothing of the group is charged. */
  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]>

  /** What is left after each adjustment, as a look at it would tell. */
  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]>

  /** Forgets what was used and what is held. */
  reset(group: readonly Counter[]): MaybePromise<void>

  close(): MaybePromise<void>

  /** Charges the counters of one limit as `charge` would, without the cost of a group. */
  charger?(name: string, limit: Limit): (key: string, cost: number) => MaybePromise<Decision>

  /**
   * The same, told instead of promised: a promise less for each. Throws, or tells once. Undefined
   * where it cannot for this limit.
   */
  teller?(
    name: string,
    limit: Limit,
  ): ((key: string, cost: number, receiver: Receiver) => void) | undefined

  /** Whether it knows leases and settlements. */
  readonly canLease?: boolean

  /** Whether a group can be judged in one step; where absent, any can. */
  liesTogether?(group: readonly Counter[]): boolean

  /**
   * Resolves when the store has answered once, with its connections open; rejects with the last
   * error after `timeoutMs`. A store without it is always ready.
   */
  ready?(timeoutMs?: number): Promise<void>

  /**
   * The same counters for a caller that cannot wait. Its calls reject with `store-timeout` if the
   * server stays silent, and with `overloaded` if they waited too long or too many wait; an
   * overloaded call was not sent and charged nothing. A store without it has no queue of its own.
   */
  bounded?(bounds: CallBounds): Store

  /** The latest round trip to the server and the deadline in force, for messages. */
  times?(): StoreTimes

  /** Which of several servers a counter is on, where they fail one by one. */
  shardOf?(counter: Counter): string

  /**
   * Tells that a process is there, for that long, and returns how many are; with 0, that it goes.
   */
  heartbeat?(id: string, lifetimeMs: number): Promise<number>
}
