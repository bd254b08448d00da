/**
 * Concurrency: at most `limit` in flight. Everything in flight is a hold (see holds.ts), so there
 * is no state here: what is held cannot be had, and a hold that is never released expires.
 */

import type { Algorithm, Judgement } from './algorithm.ts'

export interface ConcurrencyParams {
  readonly algorithm: 'concurrency'
  readonly limit: number
  readonly ttlMs: number
}

export const concurrency: Algorithm<ConcurrencyParams, never> = {
  charge(_state, cost, _now, params, held): Judgement<never> {
    const left = params.limit - held
    const allowed = cost <= left || cost === 0
    return {
      state: undefined,
      decision: {
        allowed,
        limit: params.limit,
        remaining: Math.max(0, allowed ? left - cost : left),
        retryAfterMs: allowed ? 0 : Infinity,
        resetAfterMs: 0,
        granted: allowed ? cost : 0,
        degraded: null,
      },
    }
  },

  adjust: () => undefined,
}
