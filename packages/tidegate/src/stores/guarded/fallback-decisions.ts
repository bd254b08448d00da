/** The decisions that are possible without the store. */

import { capacityOf } from '../../algorithms/limit.ts'
import type { Decision, Degraded } from '../../decision.ts'
import { randomInt } from '../../runtime.ts'
import type { Charge } from '../store.ts'

type Reason = Degraded['reason']

/**
 * Retry times of shed calls: spread over seconds, so that the clients of a burst do not return
 * together.
 */
const SHED_RETRY_MS_MIN = 1_000
const SHED_RETRY_MS_MAX = 5_000

/** Admitted without counting: the units left are unknown. */
export function openDecision({ limit, cost }: Charge, reason: Reason): Decision {
  return {
    allowed: true,
    limit: capacityOf(limit),
    remaining: capacityOf(limit),
    retryAfterMs: 0,
    resetAfterMs: 0,
    granted: cost,
    degraded: { reason, mode: 'open' },
    source: 'fallback',
  }
}

/** Refused because the limiter is unavailable, not because units were used up. */
export function refusedDecision(
  { limit }: Charge,
  degraded: Degraded,
  retryAfterMs: number,
): Decision {
  return {
    allowed: false,
    limit: capacityOf(limit),
    remaining: 0,
    retryAfterMs,
    resetAfterMs: retryAfterMs,
    granted: 0,
    degraded,
    source: 'fallback',
  }
}

/** Refused because of overload. */
export function shedDecision(charge: Charge, reason: Reason): Decision {
  const retryAfterMs = randomInt(SHED_RETRY_MS_MIN, SHED_RETRY_MS_MAX)
  return refusedDecision(charge, { reason, mode: 'shed' }, retryAfterMs)
}

/** Part of a group that another limit of it has refused: admitted, but nothing was charged. */
export function sparedDecision(charge: Charge, reason: Reason, mode: Degraded['mode']): Decision {
  return { ...openDecision(charge, reason), granted: 0, degraded: { reason, mode } }
}

/** More than the limit ever grants, so that it is refused with the store or without. */
export function impossibleDecision({ limit }: Charge, reason: Reason): Decision {
  return {
    allowed: false,
    limit: capacityOf(limit),
    remaining: capacityOf(limit),
    retryAfterMs: Infinity,
    resetAfterMs: 0,
    granted: 0,
    degraded: { reason, mode: 'open' },
    source: 'fallback',
  }
}
