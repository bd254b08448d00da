/**
 * The promise in figures: a gateway gets twice the requests that it can serve over 4,000
 * connections, one tenth of them critical. It serves all critical requests. How late they are is
 * printed; docs/decisions/shedding.md has the figures of quiet machines. The same load on a bare
 * `node:net` server shows which part of that Node.js itself takes, and a second flood which part is
 * the compilation of code that only an overload runs.
 *
 * Clients, backend and Redis share a core, and can be late themselves. So other requests go to the
 * backend directly meanwhile. If these are late too, the run says nothing about the gateway.
 */

import { expect, test } from 'vitest'
import { until } from '../support/servers/until.ts'
import type { LoadReport } from './load-client.ts'
import {
  type OverloadedGateway,
  type Plan,
  quantile,
  startOverloadedGateway,
} from './overloaded-gateway.ts'

/** The limit of sheddable requests; its period is longer than the test. */
const GRANTED = 5_000

const FLOOD_MS = 10_000

/** All critical requests are answered, also by a machine that stalls. */
const GRACE_MS = 60_000

/** More than a process can serve, to measure its capacity. */
const TOO_MANY_PER_SECOND = 50_000

async function measure({ load, status, rssMb }: OverloadedGateway) {
  const some = { path: '/critical', connections: 64 }
  await load([{ ...some, perSecond: 4_000, durationMs: 3_000 }])
  const direct = { path: '/', connections: 8, perSecond: 200, to: 'backend' } as const
  const [idle, idleDirect] = await load([
    { ...some, perSecond: 200, durationMs: 5_000 },
    { ...direct, durationMs: 5_000 },
  ])
  // The best of three, because a stall of the machine would look like a low capacity.
  let inTime = 0
  for (let at = 0; at < 3; at++) {
    const [full] = await load([{ ...some, perSecond: TOO_MANY_PER_SECOND, durationMs: 3_000 }])
    inTime = Math.max(inTime, full?.inTime ?? 0)
  }
  const perSecond = Math.round(inTime / 3)
  const before = await status()
  const offered = 2 * perSecond
  const floods = floodsOf(offered)
  const reports = await load([...floods, { ...direct, durationMs: FLOOD_MS }])
  const after = await status()
  const gatewayRssMb = rssMb()
  const bare = await measureBare(load, floods)
  await until('nothing is shed', async () => (await status()).sheddingShare.sheddable === 0)
  const [again] = await load(floods)
  return { idle, idleDirect, perSecond, before, reports, after, rssMb: gatewayRssMb, bare, again }
}

/** The load of the critical, the normal and the sheddable requests. */
function floodsOf(perSecond: number) {
  const durationMs = FLOOD_MS
  const others = { durationMs, connections: 1_800, perSecond: 0.45 * perSecond, isBackground: true }
  const critical = { durationMs, connections: 400, perSecond: 0.1 * perSecond, graceMs: GRACE_MS }
  return [
    { ...critical, path: '/critical' },
    { ...others, path: '/normal' },
    { ...others, path: '/sheddable' },
  ]
}

/** What the gateway gets, for a server that does nothing. */
async function measureBare(load: OverloadedGateway['load'], floods: readonly Plan[]) {
  const to = 'bareServer'
  const few = { path: '/', connections: 64, to } as const
  await load([{ ...few, perSecond: 4_000, durationMs: 1_000 }])
  const [idle] = await load([{ ...few, perSecond: 200, durationMs: 3_000 }])
  const [critical] = await load(floods.map((flood) => ({ ...flood, to })))
  const idleP99Ms = p99(idle)
  return {
    idleP99Ms,
    criticalP50Ms: p50(critical),
    criticalP99Ms: p99(critical),
    settledP99Ms: quantile(critical?.settledMs ?? new Float64Array(), 0.99),
    timesIdle: p99(critical) / idleP99Ms,
  }
}

function p50(report: LoadReport | undefined): number {
  return quantile(report?.latenciesMs ?? new Float64Array(), 0.5)
}

function p99(report: LoadReport | undefined): number {
  return quantile(report?.latenciesMs ?? new Float64Array(), 0.99)
}

test('at twice its capacity, all critical requests are served', async () => {
  const gateway = await startOverloadedGateway({
    // The reserve is larger than the critical requests that can be in flight, one per connection.
    overload: { delay: '5ms', requestsMax: 800, criticalShare: 0.85 },
    granted: GRANTED,
    limits: [{ name: 'all', key: 'ip', limit: 1_000_000, per: '1s' }],
  })
  const { idle, idleDirect, perSecond, before, reports, after, rssMb, bare, again } =
    await measure(gateway)
  const [critical, normal, sheddable, direct] = reports
  const lateMs = quantile(critical?.latenessMs ?? new Float64Array(), 0.99)
  const figures = {
    capacityPerSecond: perSecond,
    idleP50Ms: p50(idle),
    idleP99Ms: p99(idle),
    idleDirectP99Ms: p99(idleDirect),
    criticalP50Ms: p50(critical),
    criticalP99Ms: p99(critical),
    timesIdle: p99(critical) / p99(idle),
    directP99Ms: p99(direct),
    settledP99Ms: quantile(critical?.settledMs ?? new Float64Array(), 0.99),
    criticalClientLateP99Ms: lateMs,
    statuses: reports.map(({ statuses, sent, inTime }) => ({ sent, inTime, ...statuses })),
    shed: after.shed,
    rssMb,
    bare,
    again: { p50Ms: p50(again), p99Ms: p99(again), timesIdle: p99(again) / p99(idle) },
  }
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
  expect(before.shed.critical).toBe(0)
  expect(after.shed.critical).toBe(0)
  expect(critical?.statuses).toEqual({ 200: critical?.sent })
  expect(again?.statuses).toEqual({ 200: again?.sent })
  expect(shedShare(sheddable)).toBeGreaterThanOrEqual(shedShare(normal))
  expect(sheddable?.statuses[503] ?? 0).toBeGreaterThan(0)
  expect(sheddable?.statuses[200] ?? 0).toBeLessThanOrEqual(GRANTED)
  expect(rssMb).toBeLessThan(600)
  // Times on a shared machine prove little, but critical requests overtake others that wait.
  expect(p50(critical)).toBeLessThan(p99(normal))
})

/** The share of shed requests among the answered ones. */
function shedShare(report: LoadReport | undefined): number {
  const { 503: shed = 0, ...others } = report?.statuses ?? {}
  const served = Object.values(others).reduce((sum, count) => sum + count, 0)
  return shed / Math.max(1, shed + served)
}
