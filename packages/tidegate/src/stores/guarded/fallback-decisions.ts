/** The decisions that can be made without the store. */

import { mostOf } from '../../algorithms/limit.ts'
import type { Decision, Degraded } from '../../decision.ts'
import type { Charge } from '../store.ts'

type Reason = Degraded['reason']

/** Admitted without counting: how much is left is unknown. */
export function openDecision({ limit, cost }: Charge, reason: Reason): Decision {
  return {
    allowed: true,
    limit: mostOf(limit),
    remaining: mostOf(limit),
    retryAfterMs: 0,
    resetAfterMs: 0,
    granted: cost,
    degraded: { reason, mode: 'open' },
  }
}

/** Refused because the limiter is unavailable, not because anything was used up. */
export function refusedDecision(
  { limit }: Charge,
  degraded: Degraded,
  retryAfterMs: number,
): Decision {
  return {
    allowed: false,
    limit: mostOf(limit),
    remaining: 0,
    retryAfterMs,
    resetAfterMs: retryAfterMs,
    granted: 0,
    degraded,
  }
}

/** Part of a group that another limit of it has refused: admitted, but nothing was charged. */
export function sparedDecision(charge: Charge, reason: Reason, mode: Degraded['mode']): Decision {
  return { ...openDecision(charge, reason), granted: 0, degraded: { reason, mode } }
}

/** More than the limit ever grants, so that it is refused with the store or without. */
export function impossibleDecision({ limit }: Charge, reason: Reason): Decision {
  return {
    allowed: false,
    limit: mostOf(limit),
    remaining: mostOf(limit),
    retryAfterMs: Infinity,
    resetAfterMs: 0,
    granted: 0,
    degraded: { reason, mode: 'open' },
  }
}
