/** Steady loads for a few seconds; in the soak suite, for longer. */

import { expect, test } from 'vitest'
import { sizes } from '../support/suite.ts'
import { countsOf, degradedCount, exact } from './burst-report.ts'
import { burstOnCluster, burstWhileStopped } from './burst-steady.ts'

test('256 in flight on a Cluster of three masters are exact, and none is degraded', async () => {
  const { calls, admitted, ...counts } = countsOf(await burstOnCluster(sizes.clusterLoadMs))
  expect(counts).toEqual(exact)
  expect(admitted).toBeGreaterThan(0)
  expect(calls).toBeGreaterThan(admitted)
})

test('a process that is stopped for 60 of every 100 ms admits none over the limit', async () => {
  const result = await burstWhileStopped(sizes.stoppedKeys, sizes.stoppedLoadMs)
  const { over, under, failures, degraded, calls, admitted } = countsOf(result)
  expect(calls).toBeGreaterThan(admitted)
  expect({ over, under, failures }, JSON.stringify(degraded)).toEqual({
    over: 0,
    under: 0,
    failures: {},
  })
  expect(degradedCount(result), JSON.stringify(degraded)).toBeLessThan(result.calls / 1_000)
})
