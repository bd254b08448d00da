/**
 * Concurrency: at most `limit` in flight. Everything in flight is a hold (see holds.ts), so this
 * algorithm has no state. Held units are not available, and a hold that is never released expires.
 */

import type { Algorithm, ChargeResult } from './algorithm.ts'

export interface ConcurrencyParams {
  readonly algorithm: 'concurrency'
  readonly limit: number
  readonly ttlMs: number
}

export const concurrency: Algorithm<ConcurrencyParams, never> = {
  charge(_state, cost, _now, params, held): ChargeResult<never> {
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
        source: 'store',
      },
    }
  },

  adjust: () => undefined,
}
