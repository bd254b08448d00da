/** Decisions that are made without the store, by what each limit declares for that. */

import { mostOf } from '../../algorithms/limit.ts'
import type { Decision, Degraded, FailureMode } from '../../decision.ts'
import type { Charge } from '../store.ts'

type Reason = Degraded['reason']

/** Admitted without counting: nothing is known about what is left. */
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

/** Refused, until the store may be asked again. */
export function closedDecision({ limit }: Charge, reason: Reason, retryAfterMs: number): Decision {
  return {
    allowed: false,
    limit: mostOf(limit),
    remaining: 0,
    retryAfterMs,
    resetAfterMs: retryAfterMs,
    granted: 0,
    degraded: { reason, mode: 'closed' },
  }
}

/** Part of a group that another limit of it has refused: admitted, but nothing was taken. */
export function sparedDecision(charge: Charge, reason: Reason, mode: FailureMode): Decision {
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
