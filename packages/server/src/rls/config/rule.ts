/** A limit of the configuration, or of a request that brings its own, ready to be judged. */

import type { Limit } from 'tidegate'
import type { JsonObject } from '../wire/struct.ts'
import type { Unit } from './units.ts'

/**
 * What holds while the store does not answer: `error` fails the call, so that Envoy's
 * `failure_mode_deny` decides; `closed` is over the limit, whatever Envoy is told.
 */
export const storeErrorModes = ['error', 'open', 'closed', 'local'] as const

export type StoreErrorMode = (typeof storeErrorModes)[number]

export interface Rule {
  readonly unit: Unit
  readonly requestsPerUnit: number
  /** `name` in the answer, and for `replaces`. */
  readonly limitName: string
  /** Undefined for what is unlimited. */
  readonly counted: Counted | undefined
  readonly replaces: readonly string[]
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly metadata: JsonObject | undefined
}

export interface Counted {
  /** The name under which the store keeps its counters. */
  readonly name: string
  readonly limit: Limit
  /** The length of an aligned window; undefined where it has none that is fixed. */
  readonly windowMs: number | undefined
  readonly onStoreError: StoreErrorMode
}
