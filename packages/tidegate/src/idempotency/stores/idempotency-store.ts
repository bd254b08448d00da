/**
 * The contract of a store for idempotency keys: one record for each key, which is claimed, renewed,
 * completed or released. `idempotencyStoreContract` has the contract as tests.
 *
 * Every call is atomic, and time is the store's own. A token identifies the owner of a claim: a
 * call with another token than that of the record changes nothing. A record is forgotten exactly
 * when its lifetime ends. A call that fails rejects with a `TidegateError`; a store never guesses.
 */

import type { MaybePromise } from '../../stores/store.ts'

export interface IdempotencyStore {
  /** Claims a key that is free, or returns its state. */
  claim(key: string, claim: Claim): MaybePromise<ClaimResult>
  /**
   * Stores the result of an owner, also if the record is lost. A repeated call changes nothing.
   * Returns false if the key has another owner.
   */
  complete(key: string, completion: Completion): MaybePromise<boolean>
  /** Prolongs a lease. Returns false if the key has another owner, a result or no record. */
  renew(key: string, renewal: Renewal): MaybePromise<boolean>
  /** Gives a key back without a result. Returns false as `renew` does. */
  release(key: string, release: Release): MaybePromise<boolean>
  /** The state of a key, for operators; undefined if there is no record. Changes nothing. */
  look(key: string): MaybePromise<KeyState | undefined>
  /**
   * Deletes a record, for operators: the next request with the key is executed. Returns false if
   * there is none. An owner that is still at work stores its result all the same.
   */
  forget(key: string): MaybePromise<boolean>
}

export interface KeyState {
  /** `released`: the same request may be executed again. `lost`: its owner has left. */
  readonly state: 'running' | 'done' | 'released' | 'lost'
  /** The time until another request may take over; 0 unless it runs. */
  readonly leaseLeftMs: number
  /** The time until the record is forgotten. */
  readonly expiresInMs: number
  /** The size of the result as it is stored; 0 without one. */
  readonly resultBytes: number
}

export interface Claim {
  /** 36 characters that no other claim has; empty only to look. */
  readonly token: string
  /** 43 characters that identify the request. */
  readonly fingerprint: string
  /** The time until another caller may take over, unless the lease is renewed. */
  readonly leaseMs: number
  /** The lifetime of the record. At least `leaseMs`. */
  readonly ttlMs: number
  /** True takes over from an owner whose lease has ended. */
  readonly takesOver: boolean
}

export type ClaimResult =
  /** Only for a claim without a token. */
  | { readonly state: 'free' }
  /** The caller owns the key. `isRetry`: an owner before has released or lost it. */
  | { readonly state: 'owned'; readonly isRetry: boolean }
  | { readonly state: 'running'; readonly leaseLeftMs: number }
  | { readonly state: 'done'; readonly result: string }
  /** The key belongs to a request with another fingerprint. */
  | { readonly state: 'other-request' }
  /** The owner has left without a result, and the claim does not take over. */
  | { readonly state: 'unknown' }

export interface Completion {
  readonly token: string
  readonly fingerprint: string
  readonly result: string
  readonly ttlMs: number
}

export interface Renewal {
  readonly token: string
  readonly leaseMs: number
  readonly ttlMs: number
}

export interface Release {
  readonly token: string
  readonly remains: Remains
  readonly ttlMs: number
}

/**
 * What is left of a released key: `unused` forgets it, `retry` keeps it for the same request,
 * `unknown` marks an owner that has left without an outcome.
 */
export type Remains = 'unused' | 'retry' | 'unknown'

/** The longest lease: a crashed owner blocks its key for this time. */
export const LEASE_MS_MAX = 300_000

export const TOKEN_LENGTH = 36
export const FINGERPRINT_LENGTH = 43
