import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/tidegate/src/index.ts'
import { clockProblem, startShiftedRedis } from '../support/faults/clock-shim.ts'
import { type Load, startLoad } from '../support/faults/load.ts'
import type { Check } from '../support/faults/load-records.ts'
import { figuresOf } from '../support/faults/load-report.ts'
import { machineNowMs } from '../support/faults/machine-clock.ts'
import { patient } from '../support/patience.ts'
import { until } from '../support/servers/until.ts'
import { allChecks, checksFrom, clientsOf, isAllowed, last, phaseOf } from './scenario.ts'
import { tellFault } from './table.ts'

const HOUR_MS = 3_600_000
const WINDOW_MS = 1000

/** Twice the interval of the samples of a load. */
const SAMPLE_MS = 500

/** The limit per window: a fifth of the requested units. */
const LIMIT = 50

const options = { limit: LIMIT, per: `${WINDOW_MS}ms`, accuracy: 'exact' } as const
const limits = {
  tokenBucket: tokenBucket(options),
  slidingWindow: slidingWindow(options),
  slidingLog: slidingLog(options),
  fixedWindow: fixedWindow(options),
}

const shifts = [
  ['an hour ahead', HOUR_MS],
  ['two hours back', -HOUR_MS],
  ['right again', 0],
] as const

const problem = clockProblem()

describe('the clock of Redis', () => {
  beforeEach(({ skip }) => skip(problem !== undefined, problem))

  test.each(clientsOf('ioredis 6'))(
    '%s: a jump neither resets nor blocks beyond a window',
    async (client) => {
      const { redis, clock } = await startShiftedRedis()
      onTestFinished(() => redis.stop())
      const names = Object.keys(limits)
      // Long enough for a busy machine, because this test is about counts.
      const plan = { keys: names.length, guard: patient, isPatient: true }
      const load = await startLoad({
        client,
        redis,
        limits,
        isApart: true,
        ...plan,
      })
      await last(2 * WINDOW_MS)
      for (const [name, shiftMs] of shifts) {
        load.mark(name)
        const markedMs = machineNowMs()
        clock.shift(shiftMs)
        await last(2 * WINDOW_MS)
        await untilMadeAfter(load, markedMs + WINDOW_MS)
      }
      load.mark('over')
      const report = await load.stop()
      await redis.stop()
      const normalAfterMs = undefined
      const figures = figuresOf(checksFrom(report, shifts[0][0]))
      tellFault({ fault: 'clock of Redis ±1 h', client, normalAfterMs }, figures)
      for (const [name] of shifts) {
        const { startedMs } = phaseOf(report, name)
        for (const [key, algorithm] of names.entries()) {
          const admitted = allChecks(report).filter(
            (check) => check.key === key && isAllowed(check),
          )
          const from = (ms: number) => ({
            fromMs: startedMs + ms,
            toMs: startedMs + ms + WINDOW_MS,
          })
          const atOnce = within(admitted, from(0))
          const then = within(admitted, from(WINDOW_MS))
          // Two more windows: one that begins, and one if units were left by a stall before.
          expect(atOnce.count, `${algorithm}, ${name}`).toBeLessThanOrEqual(
            (atOnce.windows + 2) * LIMIT + 1,
          )
          expect(then.count, `${algorithm}, ${name}`).toBeLessThanOrEqual(
            (then.windows + 1) * LIMIT + 1,
          )
          const later = admitted.filter((check) => check.startedMs >= startedMs + WINDOW_MS)
          expect(later.length, `${algorithm}, ${name}`).toBeGreaterThan(0)
        }
      }
    },
  )
})

/** Waits until each process has made checks in samples that began after this time. */
async function untilMadeAfter(load: Load, timeMs: number): Promise<void> {
  await until('checks are made in the next window', () =>
    load.samples.every((samples) => {
      const later = samples.filter(({ atMs }) => atMs > timeMs + SAMPLE_MS)
      return later.reduce((sum, { made }) => sum + made, 0) > 4 * LIMIT
    }),
  )
}

/**
 * The checks that began in this span, and the windows in which Redis decided about them: one, and
 * more if it stalled, so that their answers were late.
 */
function within(checks: readonly Check[], { fromMs, toMs }: { fromMs: number; toMs: number }) {
  const found = checks.filter(({ startedMs }) => startedMs >= fromMs && startedMs < toMs)
  const lastMs = Math.max(toMs, ...found.map(({ startedMs, tookMs }) => startedMs + tookMs))
  return { count: found.length, windows: Math.round((lastMs - fromMs) / WINDOW_MS) }
}
