/** The loads of burst-steady.test.ts, for as long as an operator would watch them. */

import { expect, test } from 'vitest'
import { countsOf, degradedCount, exact } from './burst-report.ts'
import { burstOnCluster, burstWhileStopped } from './burst-steady.ts'

const CLUSTER_MS = 16_000
const STOPPED_MS = 20_000
const KEYS_STOPPED = 50_000

test('256 in flight on a Cluster of three masters are exact, and none is degraded', async () => {
  const { calls, admitted, ...counts } = countsOf(await burstOnCluster(CLUSTER_MS))
  expect(counts).toEqual(exact)
  expect(admitted).toBeGreaterThan(0)
  expect(calls).toBeGreaterThan(admitted)
})

test('a process that is stopped for 60 of every 100 ms admits none over the limit', async () => {
  const result = await burstWhileStopped(KEYS_STOPPED, STOPPED_MS)
  const { over, under, failures, degraded, calls, admitted } = countsOf(result)
  expect(calls).toBeGreaterThan(admitted)
  expect({ over, under, failures }, JSON.stringify(degraded)).toEqual({
    over: 0,
    under: 0,
    failures: {},
  })
  expect(degradedCount(result), JSON.stringify(degraded)).toBeLessThan(result.calls / 1_000)
})
