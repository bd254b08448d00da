/**
 * A ShouldRateLimit request, planned: the counters that it is charged to, and which of them each
 * descriptor uses. Both front ends make such plans: Envoy's YAML and the policy file.
 */

import type { MaybePromise } from 'tidegate'
import type { ChargePlan } from '../../limits/charging/charge-plan.ts'
import {
  type CurrentLimit,
  InvalidRequest,
  type RateLimitRequest,
} from '../wire/rate-limit-messages.ts'
import type { JsonObject } from '../wire/struct.ts'
import type { RuleStats } from './stats.ts'

/** The limit of a use, as responses and metrics show it. */
export interface ShownLimit {
  readonly stats: RuleStats
  /** Undefined for an unlimited rule. */
  readonly currentLimit: CurrentLimit | undefined
  /** The length of an aligned window; undefined for other algorithms and calendars. */
  readonly windowMs: number | undefined
  /** True if the call fails while the store does not answer; false if it is over the limit then. */
  readonly failsCall: boolean
}

/** One descriptor of a request. */
export interface PlanItem {
  /** Indexes of its uses in the plan; empty if no limit is for it. */
  readonly uses: readonly number[]
  /** True if it is over the limit without being counted. */
  readonly isRefused: boolean
  /** Added to the response if the descriptor is within its limits. */
  readonly metadata: JsonObject | undefined
}

export interface RlsPlan extends ChargePlan<ShownLimit> {
  readonly request: RateLimitRequest
  readonly items: readonly PlanItem[]
  readonly isDomainKnown: boolean
  /** True if the same request always has the same plan, under the same configuration. */
  readonly isLasting: boolean
}

export interface RlsPlanner {
  /** Throws InvalidRequest. */
  plan(request: RateLimitRequest): MaybePromise<RlsPlan>
}

/** Throws InvalidRequest for a request that cannot be planned. */
export function checkRequest({ domain, descriptors }: RateLimitRequest): void {
  if (domain === '') throw new InvalidRequest('rate limit domain must not be empty')
  if (descriptors.length > 0) return
  throw new InvalidRequest('rate limit descriptor list must not be empty')
}
