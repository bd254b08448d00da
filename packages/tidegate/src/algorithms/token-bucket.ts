/**
 * Token bucket: refills continuously at `limit / per`, holds `burst`.
 *
 * It stores the tokens that were used, not those that are left. So an absent state is a full
 * bucket, and a limit that is raised or lowered takes effect on the next request. In any interval T
 * it admits at most `burst + limit × T / per`.
 *
 * All arithmetic is on whole numbers: a token is `unitsPerToken` units, and a millisecond drains
 * `unitsPerMs` of them, so that nothing is ever rounded away.
 */

import type { Decision } from '../decision.ts'
import type { Algorithm, ChargeResult } from './algorithm.ts'

export interface TokenBucketParams {
  readonly algorithm: 'tokenBucket'
  readonly limit: number
  readonly perMs: number
  readonly burst: number
  readonly unitsPerToken: number
  readonly unitsPerMs: number
}

/** `used` whole tokens at `time`; they have drained since. */
export interface TokenBucketState {
  readonly used: number
  /** The moment in milliseconds, and the part of the next one in units of the drain. */
  readonly time: number
  readonly part: number
}

export function tokenBucketParams(limit: number, perMs: number, burst: number): TokenBucketParams {
  const divisor = greatestCommonDivisor(limit, perMs)
  return {
    algorithm: 'tokenBucket',
    limit,
    perMs,
    burst: limit === 0 ? 0 : burst,
    unitsPerToken: perMs / divisor,
    unitsPerMs: limit / divisor,
  }
}

export const tokenBucket: Algorithm<TokenBucketParams, TokenBucketState> = {
  charge(state, cost, now, params, held): ChargeResult<TokenBucketState> {
    const { unitsPerToken, burst } = params
    const level = levelAt(state, now, params)
    const wanted = level + cost * unitsPerToken
    const allowed = wanted <= (burst - held) * unitsPerToken || cost === 0
    const after = allowed ? wanted : level
    const isWritten = (allowed && cost > 0) || (state !== undefined && state.time > now)
    return {
      state: isWritten ? stateOf(after, now, params) : state,
      decision: bucketDecision(allowed, after, cost, params, held),
    }
  },

  adjust(state, units, now, params) {
    const level = levelAt(state, now, params) + units * params.unitsPerToken
    return level > 0 ? stateOf(level, now, params) : undefined
  },
}

/** The decision about a cost, given the level in units after it. */
export function bucketDecision(
  allowed: boolean,
  level: number,
  cost: number,
  params: TokenBucketParams,
  held: number,
): Decision {
  const { unitsPerToken, burst } = params
  const most = burst - held
  return {
    allowed,
    limit: burst,
    remaining: Math.max(0, most - Math.ceil(level / unitsPerToken)),
    retryAfterMs: allowed
      ? 0
      : cost > most
        ? Infinity
        : drainMs(level + (cost - most) * unitsPerToken, params),
    resetAfterMs: drainMs(level, params),
    granted: allowed ? cost : 0,
    degraded: null,
    source: 'store',
  }
}

/**
 * The level at `now`, in units. Before the state's time it was higher by the units that have
 * drained since, up to a full bucket. If the limit has changed, tokens drain at the new rate.
 */
function levelAt(state: TokenBucketState | undefined, now: number, params: TokenBucketParams) {
  if (state === undefined) return 0
  const { unitsPerToken, unitsPerMs, burst } = params
  const used = state.used * unitsPerToken
  const level = used - (now - state.time) * unitsPerMs + Math.min(state.part, unitsPerMs)
  if (now >= state.time) return level > 0 ? level : 0
  return Math.min(level, Math.max(used, burst * unitsPerToken))
}

/** The level as whole tokens, and the time at which it was that many. */
function stateOf(level: number, now: number, params: TokenBucketParams): TokenBucketState {
  const used = Math.ceil(level / params.unitsPerToken)
  const drained = used * params.unitsPerToken - level
  const agoMs = drainMs(drained, params)
  return { used, time: now - agoMs, part: agoMs * params.unitsPerMs - drained }
}

function drainMs(units: number, params: TokenBucketParams): number {
  return units > 0 ? Math.ceil(units / params.unitsPerMs) : 0
}

function greatestCommonDivisor(a: number, b: number): number {
  let [high, low] = [Math.max(a, b), Math.min(a, b)]
  while (low > 0) [high, low] = [low, high % low]
  return high
}
