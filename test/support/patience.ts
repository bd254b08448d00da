/**
 * Bounds for limiters and stores whose subject is not time. A machine that stalls for seconds must
 * not look like a store that is down, whose decisions prove nothing.
 */

export const PATIENCE_MS = 30_000

/** Options of `createLimiter` and `guardedStore`. */
export const patient = {
  deadlineMs: PATIENCE_MS,
  queueMs: PATIENCE_MS,
  connectMs: PATIENCE_MS,
} as const
