/**
 * Bursts around the boundaries of windows, and the requests that each algorithm admits in the
 * trailing second. Fixed windows admit twice the limit there.
 */

import {
  createLimiter,
  fixedWindow,
  type Limit,
  manualClock,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tidegate'
import type { Chart } from '../../../tools/charts/chart.ts'
import { trailingCount } from './oracles.ts'

const LIMIT = 100
const PER_MS = 1_000
const STEP_MS = 10

/** The chart has fewer points than the simulation has steps; the lines differ at the last one. */
const POINT_MS = 50
const END_MS = 3_500

/** Requests arrive within this time before and after the start of every second window. */
const AROUND_EDGE_MS = 100
const REQUESTS_PER_STEP = 15

/** A multiple of the period, so that windows begin at whole seconds of the chart. */
const START_MS = 1_700_000_000_000

export function boundaryChart(): Chart {
  const rule = { limit: LIMIT, per: `${PER_MS}ms` } as const
  const limits: readonly (readonly [string, Limit])[] = [
    ['fixedWindow', fixedWindow(rule)],
    ['slidingWindow', slidingWindow(rule)],
    ['tokenBucket', tokenBucket(rule)],
    ['slidingLog', slidingLog(rule)],
  ]
  return {
    name: 'boundary-burst',
    title: '100 per second, with bursts around the edges of windows',
    kind: 'lines',
    xLabel: 'seconds',
    yLabel: 'admitted within the last second',
    // All algorithms are ours; only the exact one is drawn as ours, because the others are compared
    // with it.
    series: limits.map(([name, limit]) => {
      return { name, isOurs: name === 'slidingLog', points: pointsOf(limit) }
    }),
  }
}

function pointsOf(limit: Limit): { x: number; y: number }[] {
  const clock = manualClock(START_MS)
  const limiter = createLimiter({ limit, clock })
  const admitted = trailingCount(PER_MS)
  const points: { x: number; y: number }[] = []
  for (let atMs = 0; atMs <= END_MS; atMs += STEP_MS) {
    const asked = isBurst(atMs) ? REQUESTS_PER_STEP : 0
    for (let request = 0; request < asked; request++) {
      if (limiter.checkSync('a client').allowed) admitted.add(clock.now())
    }
    if (atMs % POINT_MS === 0) points.push({ x: atMs / 1_000, y: admitted.at(clock.now()) })
    clock.advance(STEP_MS)
  }
  return points
}

/** True around the boundaries at 1, 3, … seconds; the windows in between are quiet. */
function isBurst(atMs: number): boolean {
  const intoPairMs = (atMs + PER_MS) % (2 * PER_MS)
  return intoPairMs >= 2 * PER_MS - AROUND_EDGE_MS || intoPairMs < AROUND_EDGE_MS
}
