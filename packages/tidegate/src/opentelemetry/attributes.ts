/**
 * The attributes of spans. OpenTelemetry has no convention for rate limits, so their names are in
 * one place. No attribute has a key, a token or another text of a client.
 */

import type { Attributes } from '@opentelemetry/api'
import type { Decision } from '../decision.ts'
import type { AppliedLimit } from '../limiter/limiter.ts'

export const attributeNames = {
  allowed: 'tidegate.allowed',
  /** The limit that decided: the one that refused, or the one with the fewest units left. */
  limitName: 'tidegate.limit.name',
  algorithm: 'tidegate.limit.algorithm',
  limitUnits: 'tidegate.limit.units',
  limitCount: 'tidegate.limit.count',
  used: 'tidegate.used',
  remaining: 'tidegate.remaining',
  /** Where the decision was made. */
  backend: 'tidegate.backend',
  /** True if the decision was made without the store. */
  isFallback: 'tidegate.fallback',
  fallbackReason: 'tidegate.fallback_reason',
  batchSize: 'tidegate.batch.size',
  shard: 'tidegate.store.shard',
  dbSystem: 'db.system.name',
  errorType: 'error.type',
} as const

export type AttributeName = (typeof attributeNames)[keyof typeof attributeNames]

/** The attributes of `ratelimit.check`. `isShared` is true if the store is outside this process. */
export function checkAttributes(applied: readonly AppliedLimit[], isShared: boolean): Attributes {
  const names = attributeNames
  const deciding = applied.reduce<AppliedLimit | undefined>(stricter, undefined)
  if (deciding === undefined) return { [names.allowed]: true, [names.limitCount]: 0 }
  const { name, limit, decision } = deciding
  const degraded = applied.find((one) => one.decision.degraded !== null)?.decision.degraded
  return {
    [names.allowed]: decision.allowed,
    [names.limitName]: name,
    [names.algorithm]: limit.algorithm,
    [names.limitUnits]: decision.limit,
    [names.limitCount]: applied.length,
    [names.used]: Math.max(0, decision.limit - decision.remaining),
    [names.remaining]: decision.remaining,
    [names.backend]: backendOf(decision, isShared),
    [names.isFallback]: degraded !== undefined,
    ...(degraded != null && { [names.fallbackReason]: degraded.reason }),
  }
}

function stricter(one: AppliedLimit | undefined, other: AppliedLimit): AppliedLimit {
  if (one === undefined) return other
  const [first, second] = [one.decision, other.decision]
  if (first.allowed !== second.allowed) return first.allowed ? other : one
  if (!first.allowed) return second.retryAfterMs > first.retryAfterMs ? other : one
  return second.remaining < first.remaining ? other : one
}

/** As the label `by` of the metrics has it. */
function backendOf({ source, degraded }: Decision, isShared: boolean): string {
  if (degraded !== null && degraded.reason !== 'unconfirmed') {
    return degraded.reason === 'disabled' ? 'off' : degraded.mode
  }
  if (source === 'cache') return 'denial_cache'
  if (source === 'lease') return 'lease'
  return isShared ? 'store' : 'memory'
}
