/** A gateway process with Redis, overloaded for a few seconds. */

import { expect, test } from 'vitest'
import { startOverloadedGateway } from './overloaded-gateway.ts'

/** The limit of sheddable requests; its period is longer than the test. */
const GRANTED = 500

/** Twice as long as a burst, during which nothing is shed for lateness. */
const DURATION_MS = 6_000

/** All critical requests are answered, also by a machine that stalls. */
const GRACE_MS = 60_000

test('sheds by priority, answers health checks, and exceeds no limit', async () => {
  const { url, admin, load, status, rssMb } = await startOverloadedGateway({
    overload: { delay: '5ms', requestsMax: 1_000, criticalShare: 0.5 },
    granted: GRANTED,
  })
  const plan = { durationMs: DURATION_MS }
  const loading = load([
    { ...plan, path: '/critical', connections: 50, perSecond: 200, graceMs: GRACE_MS },
    { ...plan, path: '/normal', connections: 400, perSecond: 20_000 },
    { ...plan, path: '/sheddable', connections: 400, perSecond: 20_000 },
  ])
  let isOver = false
  const watching = (async () => {
    const seen: { answers: number[]; normal: number; sheddable: number }[] = []
    while (!isOver) {
      const answers = await Promise.all(
        [`${url}/health`, `${url}/ready`, `${admin}/health`].map(async (one) => {
          const response = await fetch(one)
          await response.arrayBuffer()
          return response.status
        }),
      )
      const { normal, sheddable } = (await status()).sheddingShare
      seen.push({ answers, normal, sheddable })
    }
    return seen
  })()
  const [critical, normal, sheddable] = await loading
  isOver = true
  const seen = await watching
  const { shed } = await status()
  expect(shed.critical).toBe(0)
  expect(critical?.statuses).toEqual({ 200: critical?.sent })
  expect(shed.sheddable).toBeGreaterThan(0)
  expect(sheddable?.statuses[503] ?? 0).toBeGreaterThan(0)
  expect(sheddable?.statuses[200] ?? 0).toBeLessThanOrEqual(GRANTED)
  expect(normal?.statuses[200] ?? 0).toBeGreaterThan(0)
  // Those in flight aside, normal requests are shed only while sheddable ones are.
  expect(seen.filter((one) => one.normal > 0 && one.sheddable < 1)).toEqual([])
  expect(seen.flatMap(({ answers }) => answers).filter((code) => code !== 200)).toEqual([])
  const waits = Object.keys(sheddable?.retryAfters ?? {})
  expect(waits).toEqual(expect.arrayContaining(['1', '2', '3', '4', '5']))
  expect(rssMb()).toBeLessThan(500)
})
