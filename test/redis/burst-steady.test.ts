/** Loads of a few seconds; burst-steady.soak.test.ts has the longer ones. */

import { expect, test } from 'vitest'
import { countsOf, degradedCount, exact } from './burst-report.ts'
import { burstOnCluster, burstWhileStopped } from './burst-steady.ts'

const FOR_MS = 2_000

/** So few that each is asked for more often than its limit within that time. */
const KEYS_STOPPED = 5_000

test('256 in flight on a Cluster of three masters are exact, and none is degraded', async () => {
  const { calls, admitted, ...counts } = countsOf(await burstOnCluster(FOR_MS))
  expect(counts).toEqual(exact)
  expect(admitted).toBeGreaterThan(0)
  expect(calls).toBeGreaterThan(admitted)
})

test('a process that is stopped for 60 of every 100 ms admits none over the limit', async () => {
  const result = await burstWhileStopped(KEYS_STOPPED, FOR_MS)
  const { over, under, failures, degraded, calls, admitted } = countsOf(result)
  expect(calls).toBeGreaterThan(admitted)
  expect({ over, under, failures }, JSON.stringify(degraded)).toEqual({
    over: 0,
    under: 0,
    failures: {},
  })
  expect(degradedCount(result), JSON.stringify(degraded)).toBeLessThan(result.calls / 1_000)
})
