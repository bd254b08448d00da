/**
 * The promise in figures: a gateway gets twice the requests that it can serve over 4,000
 * connections, one tenth of them critical. It serves all critical requests. How late they are is
 * printed; docs/decisions/shedding.md has the figures of quiet machines.
 *
 * Clients, backend and Redis share a core, and can be late themselves. So other requests go to the
 * backend directly meanwhile. If these are late too, the run says nothing about the gateway.
 */

import { expect, test } from 'vitest'
import type { LoadReport } from './load-client.ts'
import { type OverloadedGateway, quantile, startOverloadedGateway } from './overloaded-gateway.ts'

/** The limit of sheddable requests; its period is longer than the test. */
const GRANTED = 5_000

/** All critical requests are answered, also by a machine that stalls. */
const GRACE_MS = 60_000

/** More than a process can serve, to measure its capacity. */
const TOO_MANY_PER_SECOND = 50_000

async function measure({ load, status, rssMb }: OverloadedGateway) {
  const some = { path: '/critical', connections: 64 }
  await load([{ ...some, perSecond: 4_000, durationMs: 3_000 }])
  const direct = { path: '/', connections: 8, perSecond: 200, isDirect: true }
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
  const plan = { durationMs: 10_000 }
  const perClass = { connections: 1_800, perSecond: 0.45 * offered }
  const flood = { ...plan, ...perClass, isBackground: true }
  const reports = await load([
    { ...plan, path: '/critical', connections: 400, perSecond: 0.1 * offered, graceMs: GRACE_MS },
    { ...flood, path: '/normal' },
    { ...flood, path: '/sheddable' },
    { ...plan, ...direct },
  ])
  const after = await status()
  return { idle, idleDirect, perSecond, before, reports, after, rssMb: rssMb() }
}

test('at twice its capacity, all critical requests are served', async () => {
  const gateway = await startOverloadedGateway({
    // The reserve is larger than the critical requests that can be in flight, one per connection.
    overload: { delay: '5ms', requestsMax: 800, criticalShare: 0.85 },
    granted: GRANTED,
    limits: [{ name: 'all', key: 'ip', limit: 1_000_000, per: '1s' }],
  })
  const { idle, idleDirect, perSecond, before, reports, after, rssMb } = await measure(gateway)
  const [critical, normal, sheddable, direct] = reports
  const p50 = (report: typeof idle) => quantile(report?.latenciesMs ?? new Float64Array(), 0.5)
  const p99 = (report: typeof idle) => quantile(report?.latenciesMs ?? new Float64Array(), 0.99)
  const lateMs = quantile(critical?.latenessMs ?? new Float64Array(), 0.99)
  const figures = {
    capacityPerSecond: perSecond,
    idleP50Ms: p50(idle),
    idleP99Ms: p99(idle),
    idleDirectP99Ms: p99(idleDirect),
    criticalP50Ms: p50(critical),
    criticalP99Ms: p99(critical),
    directP99Ms: p99(direct),
    settledP99Ms: quantile(critical?.settledMs ?? new Float64Array(), 0.99),
    criticalClientLateP99Ms: lateMs,
    statuses: reports.map(({ statuses, sent, inTime }) => ({ sent, inTime, ...statuses })),
    shed: after.shed,
    rssMb,
  }
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
  expect(before.shed.critical).toBe(0)
  expect(after.shed.critical).toBe(0)
  expect(critical?.statuses).toEqual({ 200: critical?.sent })
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
