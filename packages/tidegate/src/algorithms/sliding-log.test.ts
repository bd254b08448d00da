import { describe, expect, it } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import { logBytes, logEntries, type SlidingLogState, slidingLog } from './sliding-log.ts'
import { runTable, untilAdmitted } from './table-contract.ts'

const params = (limit: number, perMs: number) => ({
  algorithm: 'slidingLog' as const,
  limit,
  perMs,
})

describe('sliding log', () => {
  it('forgets the request of second 10 at second 70, not before', () => {
    runTable(slidingLog, params(2, 60_000), [
      [10_000, 1, true, 1, 0, 60_000],
      [30_000, 1, true, 0, 0, 60_000],
      [69_999, 1, false, 0, 1, 20_001],
      [70_000, 1, true, 0, 0, 60_000],
      [70_000, 1, false, 0, 20_000, 60_000],
      [70_000, 2, false, 0, 60_000, 60_000],
      [70_000, 3, false, 0, Infinity, 60_000],
    ])
  })

  it('has no burst at the boundary of two minutes', () => {
    runTable(slidingLog, params(100, 60_000), [
      [59_999, 100, true, 0, 0, 60_000],
      [60_000, 1, false, 0, 59_999, 59_999],
      [119_999, 100, true, 0, 0, 60_000],
    ])
  })

  it('counts costs, and frees them one by one', () => {
    runTable(slidingLog, params(10, 1_000), [
      [0, 4, true, 6, 0, 1_000],
      [100, 6, true, 0, 0, 1_000],
      [500, 5, false, 0, 600, 600],
      [1_000, 5, false, 4, 100, 100],
      [1_000, 4, true, 0, 0, 1_000],
    ])
  })

  it('takes what lies in the future for now', () => {
    const { state } = slidingLog.charge(undefined, 2, 3_600_000, params(2, 1_000), 0)
    const judged = slidingLog.charge(state, 1, 0, params(2, 1_000), 0)
    expect(judged.decision).toMatchObject({ allowed: false, retryAfterMs: 1_000 })
    expect(logEntries(judged.state as SlidingLogState)).toEqual([{ time: 0, cost: 2 }])
  })

  it('refunds the newest first', () => {
    const limit = params(10, 1_000)
    const first = slidingLog.charge(undefined, 4, 0, limit, 0).state
    const second = slidingLog.charge(first, 4, 100, limit, 0).state
    const refunded = slidingLog.adjust(second, -5, 100, limit) as SlidingLogState
    expect(logEntries(refunded)).toEqual([{ time: 0, cost: 3 }])
    expect(slidingLog.adjust(refunded, -9, 100, limit)).toBe(undefined)
  })

  it('never changes an old state, also where two go on from it', () => {
    const limit = params(10, 1_000)
    const old = slidingLog.charge(undefined, 1, 0, limit, 0).state as SlidingLogState
    const one = slidingLog.charge(old, 2, 1, limit, 0).state as SlidingLogState
    const other = slidingLog.charge(old, 3, 2, limit, 0).state as SlidingLogState
    expect(logEntries(old)).toEqual([{ time: 0, cost: 1 }])
    expect(logEntries(one)[1]).toEqual({ time: 1, cost: 2 })
    expect(logEntries(other)[1]).toEqual({ time: 2, cost: 3 })
  })

  it('takes at most 16 bytes per admitted request', () => {
    const limit = params(100_000, 60_000)
    let state: SlidingLogState | undefined
    for (let at = 0; at < 150_000; at++) {
      state = slidingLog.charge(state, 1, at, limit, 0).state
      const count = state === undefined ? 0 : state.end - state.head
      if (state !== undefined && count >= 16) expect(logBytes(state) / count).toBeLessThan(16)
    }
  })

  it('gives memory back when a burst is over', () => {
    const limit = params(100_000, 1_000)
    let state: SlidingLogState | undefined
    for (let at = 0; at < 10_000; at++) state = slidingLog.charge(state, 1, 0, limit, 0).state
    for (let at = 1; at < 20; at++) state = slidingLog.charge(state, 1, at * 500, limit, 0).state
    expect(logBytes(state as SlidingLogState)).toBeLessThan(1_000)
  })
})

const limits = fc
  .record({ limit: fc.integer({ min: 1, max: 200 }), perMs: fc.integer({ min: 1, max: 10_000 }) })
  .map(({ limit, perMs }) => params(limit, perMs))

const steps = fc.array(
  fc.record({ waitMs: fc.nat({ max: 3_000 }), cost: fc.integer({ min: -20, max: 60 }) }),
  { minLength: 1, maxLength: 80 },
)

describe('sliding log, whatever the history', () => {
  it('answers as a plain list of admitted requests would', () => {
    fc.assert(
      fc.property(limits, steps, (limit, history) => {
        let state: SlidingLogState | undefined
        let model: number[] = []
        let now = 0
        for (const { waitMs, cost } of history) {
          now += waitMs
          model = model.filter((time) => time + limit.perMs > now)
          if (cost < 0) {
            state = slidingLog.adjust(state, cost, now, limit)
            model = model.slice(0, Math.max(0, model.length + cost))
            continue
          }
          const judged = slidingLog.charge(state, cost, now, limit, 0)
          state = judged.state
          const isAllowed = model.length + cost <= limit.limit || cost === 0
          if (isAllowed) model.push(...Array<number>(cost).fill(now))
          const remaining = limit.limit - model.length
          expect(judged.decision).toMatchObject({ allowed: isAllowed, remaining })
        }
      }),
    )
  })

  it('has exact retry and reset times', () => {
    fc.assert(
      fc.property(limits, steps, fc.integer({ min: 1, max: 99 }), (limit, history, cost) => {
        let state: SlidingLogState | undefined
        let now = 0
        for (const step of history) {
          now += step.waitMs
          state = slidingLog.charge(state, Math.abs(step.cost), now, limit, 0).state
        }
        untilAdmitted(slidingLog, state, cost, now, limit)
      }),
    )
  })
})
