import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/tidegate/src/index.ts'
import { clockProblem, startShiftedRedis } from '../support/faults/clock-shim.ts'
import { startLoad } from '../support/faults/load.ts'
import { figuresOf } from '../support/faults/load-report.ts'
import { allChecks, checksFrom, clientsOf, isAllowed, last, phaseOf } from './scenario.ts'
import { tellFault } from './table.ts'

const HOUR_MS = 3_600_000
const WINDOW_MS = 1000

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
      const guard = { deadlineMs: 5000 }
      const load = await startLoad({
        client,
        redis,
        limits,
        isApart: true,
        keys: names.length,
        guard,
      })
      await last(2 * WINDOW_MS)
      for (const [name, shiftMs] of shifts) {
        load.mark(name)
        clock.shift(shiftMs)
        await last(2 * WINDOW_MS)
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
          const afterMs = admitted.map((check) => check.startedMs - startedMs)
          const atOnce = afterMs.filter((ms) => ms >= 0 && ms < WINDOW_MS).length
          const then = afterMs.filter((ms) => ms >= WINDOW_MS && ms < 2 * WINDOW_MS).length
          // A third window if the processes stalled before, so that units were left.
          expect(atOnce, `${algorithm}, ${name}`).toBeLessThanOrEqual(3 * LIMIT + 1)
          expect(then, `${algorithm}, ${name}`).toBeLessThanOrEqual(2 * LIMIT + 1)
          expect(then, `${algorithm}, ${name}`).toBeGreaterThan(0)
        }
      }
    },
  )
})
