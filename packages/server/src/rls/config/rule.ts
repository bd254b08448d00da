/** A rule of the configuration, or of a request that brings its own limit, ready to be charged. */

import type { CompiledLimit } from '../../limits/compile/compiled-limit.ts'
import type { JsonObject } from '../wire/struct.ts'
import type { Unit } from './units.ts'

/**
 * The decision while the store does not answer. `error` fails the call, so that Envoy's
 * `failure_mode_deny` decides; `closed` is over the limit, whatever Envoy is configured to do.
 */
export const storeErrorModes = ['error', 'open', 'closed', 'local'] as const

export type StoreErrorMode = (typeof storeErrorModes)[number]

export interface Rule {
  readonly unit: Unit
  readonly requestsPerUnit: number
  /** `name` in responses, in `replaces` and for overrides. */
  readonly limitName: string
  /** Undefined for an unlimited rule. */
  readonly counted: Counted | undefined
  readonly replaces: readonly string[]
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly metadata: JsonObject | undefined
}

export interface Counted {
  readonly compiled: CompiledLimit
  /** The length of an aligned window; undefined for other algorithms and calendars. */
  readonly windowMs: number | undefined
  readonly onStoreError: StoreErrorMode
}
