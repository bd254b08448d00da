/** Bounds of requests during a failover, and the check that each was counted at most once. */

import { expect } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { kindsOf, type Traffic } from './traffic.ts'

/** More than a test can request, with a period so long that no unit is refilled. */
export const LIMIT = 1_000_000

export const limit = tokenBucket({ limit: LIMIT, per: '365d' })

/** The timeout of requests that meet the failover. */
export const TIMEOUT_MS = 500

/** The timeout of requests that the failover must not affect. */
export const PATIENCE_MS = 20_000

/** From the takeover to the first answer: half a second, and a few times that on a busy machine. */
export const RECOVERY_MS_MAX = 5_000

/** The delay beyond its timeout for a request of a stalled process. */
export const LATE_MS_MAX = 5_000

/** Writes in this time before the loss may not have reached the replicas. */
export const REPLICATION_LAG_MS = 200

/** Every failure is a known one, and came in time. */
export function expectKnownFailures(name: string, traffic: Traffic): void {
  expect.soft(traffic.slowestMs, name).toBeLessThan(TIMEOUT_MS + LATE_MS_MAX)
  const codes = new Set(traffic.failures.map(({ code }) => code))
  const isKnown = [...codes].every(
    (code) => code === 'store-unreachable' || code === 'store-timeout',
  )
  expect.soft(isKnown, `${name}: ${kindsOf(traffic.failures)}`).toBe(true)
}

/**
 * `used` are the units that the store has counted; the server was lost at `lostMs`. One that hung
 * answers what it has got before it learns that it was replaced, from `resumedMs` on.
 */
export function expectCounted(
  name: string,
  traffic: Traffic,
  used: number,
  lostMs: number,
  resumedMs = Number.POSITIVE_INFINITY,
): void {
  // Each request in flight may have been counted once; other failed requests were not sent.
  const unknown = traffic.failures.filter(
    ({ beganMs, code }) => beganMs <= lostMs || code === 'store-timeout',
  )
  const isAtRisk = (answeredMs: number) =>
    (answeredMs > lostMs - REPLICATION_LAG_MS && answeredMs <= lostMs + TIMEOUT_MS) ||
    (answeredMs >= resumedMs && answeredMs <= resumedMs + TIMEOUT_MS)
  const atRisk = traffic.answeredMs.filter(isAtRisk)
  expect.soft(used, name).toBeLessThanOrEqual(traffic.admittedCount + unknown.length)
  expect.soft(used, name).toBeGreaterThanOrEqual(traffic.admittedCount - atRisk.length)
}
