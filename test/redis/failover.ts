/** Bounds of requests during a failover, and the check that each was counted at most once. */

import { expect } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { crash, pause } from '../support/faults/pause.ts'
import type { RedisServer } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { type Answer, kindsOf, type Traffic } from './traffic.ts'

/** A client left a connection that was silent, as after a stall, with requests on it. */
const DROPPED = /socket timeout/i

/** More than a test can request, with a period so long that no unit is refilled. */
export const LIMIT = 1_000_000

export const limit = tokenBucket({ limit: LIMIT, per: '365d' })

/** The timeout of requests that meet the failover. */
export const TIMEOUT_MS = 500

/** The timeout of requests that the failover must not affect. */
export const PATIENCE_MS = 20_000

/** From the takeover to the first answer: half a second, and far less than never if it stalls. */
export const RECOVERY_MS_MAX = 30_000

/** The delay beyond its timeout for a request of a stalled process. Gross, as all times are. */
export const LATE_MS_MAX = 15_000

/** Times on the axis of `performance.now()`. */
export interface Loss {
  /** The replicas have all writes that were answered by then. */
  readonly syncedMs: number
  /** The server answers nothing any more. */
  readonly lostMs: number
  /** A server that hung went on, and answered until it learnt that it was replaced. */
  readonly resumedMs?: number
  readonly demotedMs?: number
}

/** Loses a server by this signal, when its replicas have all that was written a moment before. */
export async function lose(
  server: RedisServer,
  replicas: readonly RedisServer[],
  signal: 'SIGKILL' | 'SIGSTOP',
): Promise<Loss> {
  const syncedMs = performance.now()
  const written = await offsetOf(server, 'master_repl_offset')
  await until('the replicas are in step', async () => {
    const read = replicas.map((replica) => offsetOf(replica, 'slave_repl_offset'))
    return (await Promise.all(read)).every((offset) => offset >= written)
  })
  await (signal === 'SIGKILL' ? crash(server) : pause(server))
  return { syncedMs, lostMs: performance.now() }
}

async function offsetOf(server: RedisServer, field: string): Promise<number> {
  const info = String(await server.command('INFO', 'replication'))
  return Number(new RegExp(`${field}:(\\d+)`).exec(info)?.[1] ?? Number.NaN)
}

/** Every failure is a known one, and came in time. */
export function expectKnownFailures(name: string, traffic: Traffic): void {
  expect.soft(traffic.slowestMs, name).toBeLessThan(TIMEOUT_MS + LATE_MS_MAX)
  const codes = new Set(traffic.failures.map(({ code }) => code))
  const isKnown = [...codes].every(
    (code) => code === 'store-unreachable' || code === 'store-timeout',
  )
  expect.soft(isKnown, `${name}: ${kindsOf(traffic.failures)}`).toBe(true)
}

/** `used` are the units that the store has counted. */
export function expectCounted(name: string, traffic: Traffic, used: number, loss: Loss): void {
  const { syncedMs, lostMs, resumedMs = lostMs, demotedMs = lostMs } = loss
  // Each request in flight may have been counted once; other failed requests were not sent.
  const unknown = traffic.failures.filter(
    ({ beganMs, code, message }) =>
      beganMs <= lostMs || code === 'store-timeout' || DROPPED.test(message),
  )
  const isAtRisk = ({ beganMs, answeredMs }: Answer) =>
    (answeredMs > syncedMs && beganMs <= lostMs) ||
    (answeredMs >= resumedMs && beganMs <= demotedMs)
  const atRisk = traffic.answers.filter(isAtRisk)
  expect.soft(used, name).toBeLessThanOrEqual(traffic.admittedCount + unknown.length)
  expect.soft(used, name).toBeGreaterThanOrEqual(traffic.admittedCount - atRisk.length)
}
