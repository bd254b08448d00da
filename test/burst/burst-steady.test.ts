/** Steady loads for a few seconds; in the soak suite, for longer. */

import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { sizes } from '../support/suite.ts'
import { countsOf, degradedCount, exact } from './burst-report.ts'
import type { BurstResult } from './burst-run.ts'
import { burstsOnCluster, burstWhileStopped } from './burst-steady.ts'

/** Short, because a burst in which Redis stalls is made again. */
const CLUSTER_BURST_MS = 2_000

test('256 in flight on a Cluster of three masters are exact, and none is degraded', async () => {
  const isExact = (result: BurstResult) => {
    const { calls: _calls, admitted: _admitted, ...counts } = countsOf(result)
    return isDeepStrictEqual(counts, exact)
  }
  const bursts = await burstsOnCluster(sizes.clusterBursts, CLUSTER_BURST_MS, isExact)
  for (const { calls, admitted, ...counts } of bursts.map(countsOf)) {
    expect(counts).toEqual(exact)
    expect(admitted).toBeGreaterThan(0)
    expect(calls).toBeGreaterThan(admitted)
  }
})

test('a process that is stopped for 60 of every 100 ms admits none over the limit', async () => {
  const isRight = (each: BurstResult) => each.over + each.under === 0 && isRarelyDegraded(each)
  const result = await burstWhileStopped(sizes.stoppedKeys, sizes.stoppedLoadMs, isRight)
  const { over, under, failures, degraded, calls, admitted } = countsOf(result)
  expect(calls).toBeGreaterThan(admitted)
  expect({ over, under, failures }, JSON.stringify(degraded)).toEqual({
    over: 0,
    under: 0,
    failures: {},
  })
  expect(isRarelyDegraded(result), JSON.stringify(degraded)).toBe(true)
})

function isRarelyDegraded(result: BurstResult): boolean {
  return degradedCount(result) < result.calls / 1_000
}
