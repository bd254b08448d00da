import { describe, expect, it } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import { type SlidingWindowState, slidingWindow } from './sliding-window.ts'
import { runTable, untilAdmitted } from './table-contract.ts'

const params = (limit: number, perMs: number) => ({
  algorithm: 'slidingWindow' as const,
  limit,
  perMs,
})

describe('sliding window', () => {
  it('weighs 80 of the previous window by half and adds 30: 70 of 100', () => {
    runTable(slidingWindow, params(100, 1_000), [
      [0, 80, true, 20, 0, 2_000],
      [1_500, 30, true, 30, 0, 1_500],
      [1_500, 31, false, 30, 13, 1_500],
      [1_513, 31, true, 0, 0, 1_487],
    ])
  })

  it('has no burst at the boundary of two windows', () => {
    runTable(slidingWindow, params(100, 60_000), [
      [59_999, 100, true, 0, 0, 60_001],
      [60_000, 1, false, 0, 600, 60_000],
      [60_600, 1, true, 0, 0, 119_400],
    ])
  })

  it('waits through the rest of this window and part of the next', () => {
    runTable(slidingWindow, params(10, 1_000), [
      [200, 10, true, 0, 0, 1_800],
      [300, 5, false, 0, 1_200, 1_700],
      [1_499, 5, false, 4, 1, 501],
      [1_500, 5, true, 0, 0, 1_500],
      [1_500, 11, false, 0, Infinity, 1_500],
    ])
  })

  it('waits two windows for everything', () => {
    runTable(slidingWindow, params(10, 1_000), [
      [0, 1, true, 9, 0, 2_000],
      [0, 10, false, 9, 2_000, 2_000],
      [1_999, 10, false, 9, 1, 1],
      [2_000, 10, true, 0, 0, 2_000],
    ])
  })

  it('carries the counts of a window from the future into this one', () => {
    const { state } = slidingWindow.charge(undefined, 10, 3_600_500, params(10, 1_000), 0)
    const judged = slidingWindow.charge(state, 1, 500, params(10, 1_000), 0)
    expect(judged.decision).toMatchObject({ allowed: false, retryAfterMs: 600 })
    expect(judged.state).toEqual({ previous: 0, current: 10, start: 0 })
  })

  it('refunds the current window first, then the previous', () => {
    const limit = params(10, 1_000)
    const state: SlidingWindowState = { previous: 6, current: 2, start: 1_000 }
    expect(slidingWindow.adjust(state, -1, 1_000, limit)).toMatchObject({ previous: 6, current: 1 })
    expect(slidingWindow.adjust(state, -5, 1_000, limit)).toMatchObject({ previous: 3, current: 0 })
    expect(slidingWindow.adjust(state, -9, 1_000, limit)).toBe(undefined)
  })
})

const limits = fc
  .record({ limit: fc.integer({ min: 1, max: 500 }), perMs: fc.integer({ min: 1, max: 10_000 }) })
  .map(({ limit, perMs }) => params(limit, perMs))

const steps = fc.array(fc.record({ waitMs: fc.nat({ max: 5_000 }), cost: fc.nat({ max: 80 }) }), {
  minLength: 1,
  maxLength: 60,
})

describe('sliding window, whatever the history', () => {
  it('never has a weighted sum above the limit, nor more than the limit in a window', () => {
    fc.assert(
      fc.property(limits, steps, (limit, history) => {
        const perWindow = new Map<number, number>()
        let state: SlidingWindowState | undefined
        let now = 0
        for (const { waitMs, cost } of history) {
          now += waitMs
          const judged = slidingWindow.charge(state, cost, now, limit, 0)
          state = judged.state
          const window = Math.floor(now / limit.perMs)
          const count = (perWindow.get(window) ?? 0) + judged.decision.granted
          perWindow.set(window, count)
          const previous = perWindow.get(window - 1) ?? 0
          const weight = (window + 1) * limit.perMs - now
          const sum = previous * weight + count * limit.perMs
          expect(sum).toBeLessThanOrEqual(limit.limit * limit.perMs)
          const left = Math.floor((limit.limit * limit.perMs - sum) / limit.perMs)
          expect(judged.decision.remaining).toBe(left)
        }
      }),
    )
  })

  it('has exact retry and reset times, and no less left later', () => {
    fc.assert(
      fc.property(limits, steps, fc.integer({ min: 1, max: 99 }), (limit, history, cost) => {
        let state: SlidingWindowState | undefined
        let now = 0
        for (const step of history) {
          now += step.waitMs
          state = slidingWindow.charge(state, step.cost, now, limit, 0).state
        }
        untilAdmitted(slidingWindow, state, cost, now, limit)
        const left = (at: number) => slidingWindow.charge(state, 0, at, limit, 0).decision.remaining
        expect(left(now + cost)).toBeGreaterThanOrEqual(left(now))
      }),
    )
  })
})
