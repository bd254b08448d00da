/**
 * Token bucket: refills continuously at `limit / per`, holds `burst`.
 *
 * It stores what has been used, not what is left, so that an absent state is a full bucket and a
 * limit that is raised or lowered takes effect on the next request. In any interval T it admits at
 * most `burst + limit × T / per`.
 *
 * All arithmetic is on whole numbers: a token is `unitsPerToken` units, and a millisecond drains
 * `unitsPerMs` of them, so that nothing is ever rounded away.
 */

import type { Algorithm, Judgement } from './algorithm.ts'

export interface TokenBucketParams {
  readonly algorithm: 'tokenBucket'
  readonly limit: number
  readonly perMs: number
  readonly burst: number
  readonly unitsPerToken: number
  readonly unitsPerMs: number
}

export interface TokenBucketState {
  /** Units used and not yet refilled, as of `time`. */
  readonly level: number
  /** How many units of `level` are a token: those of the limit that it was written under. */
  readonly unitsPerToken: number
  readonly time: number
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
  charge(state, cost, now, params, held): Judgement<TokenBucketState> {
    const { unitsPerToken, burst } = params
    const level = levelAt(state, now, params)
    const capacity = (burst - held) * unitsPerToken
    const wanted = cost * unitsPerToken
    const allowed = level + wanted <= capacity || cost === 0
    const after = allowed ? level + wanted : level
    const left = capacity - after
    return {
      state:
        (allowed && cost > 0) || (state !== undefined && state.time > now)
          ? { level: after, unitsPerToken, time: now }
          : state,
      decision: {
        allowed,
        limit: burst,
        remaining: left > 0 ? Math.floor(left / unitsPerToken) : 0,
        retryAfterMs: allowed ? 0 : cost > burst - held ? Infinity : drainMs(wanted - left, params),
        resetAfterMs: drainMs(after, params),
        granted: allowed ? cost : 0,
        degraded: null,
      },
    }
  },

  adjust(state, units, now, params) {
    const { unitsPerToken } = params
    const level = levelAt(state, now, params) + units * unitsPerToken
    return level > 0 ? { level, unitsPerToken, time: now } : undefined
  },
}

/** The level now. Before `state.time` it was higher by what has drained since, up to full. */
function levelAt(state: TokenBucketState | undefined, now: number, params: TokenBucketParams) {
  if (state === undefined || state.level === 0) return 0
  const stored = state.unitsPerToken === params.unitsPerToken ? state.level : rescale(state, params)
  const level = stored - (now - state.time) * params.unitsPerMs
  if (level <= stored) return level > 0 ? level : 0
  return Math.min(level, Math.max(stored, params.burst * params.unitsPerToken))
}

/** The limit was changed: the level in its units, rounded up, so that nothing is given away. */
function rescale(state: TokenBucketState, params: TokenBucketParams): number {
  return Math.ceil((state.level / state.unitsPerToken) * params.unitsPerToken)
}

function drainMs(units: number, params: TokenBucketParams): number {
  return units > 0 ? Math.ceil(units / params.unitsPerMs) : 0
}

function greatestCommonDivisor(a: number, b: number): number {
  let [high, low] = [Math.max(a, b), Math.min(a, b)]
  while (low > 0) [high, low] = [low, high % low]
  return high
}
