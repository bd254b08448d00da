import { describe, expect, it } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import { type FixedWindowState, fixedWindow } from './fixed-window.ts'
import { runTable, untilAdmitted } from './table-contract.ts'

const params = (limit: number, per: number) => ({ algorithm: 'fixedWindow' as const, limit, per })

describe('fixed window', () => {
  it('counts each aligned window for itself', () => {
    runTable(fixedWindow, params(10, 1_000), [
      [200, 8, true, 2, 0, 800],
      [300, 3, false, 2, 700, 700],
      [300, 2, true, 0, 0, 700],
      [999, 1, false, 0, 1, 1],
      [1_000, 10, true, 0, 0, 1_000],
      [1_000, 11, false, 0, Infinity, 1_000],
    ])
  })

  it('admits twice the limit around a boundary: its known burst', () => {
    runTable(fixedWindow, params(100, 60_000), [
      [59_000, 100, true, 0, 0, 1_000],
      [60_000, 100, true, 0, 0, 60_000],
    ])
  })

  it('carries the count of a window from the future into this one', () => {
    const { state } = fixedWindow.charge(undefined, 10, 3_600_500, params(10, 1_000), 0)
    const judged = fixedWindow.charge(state, 1, 400, params(10, 1_000), 0)
    expect(judged.decision).toMatchObject({ allowed: false, retryAfterMs: 600 })
    expect(judged.state).toEqual({ count: 10, start: 0 })
  })

  it('follows the calendar day of a time zone, 25 hours long when summer time ends', () => {
    const per = { unit: 'day', timeZone: 'Europe/Berlin' } as const
    const limit = { algorithm: 'fixedWindow' as const, limit: 1, per }
    const noon = Date.parse('2026-10-25T11:00:00Z')
    const { state, decision } = fixedWindow.charge(undefined, 1, noon, limit, 0)
    expect(decision.resetAfterMs).toBe(12 * 3_600_000)
    const morning = Date.parse('2026-10-24T22:00:00Z')
    expect(fixedWindow.charge(undefined, 1, morning, limit, 0).decision.resetAfterMs).toBe(
      25 * 3_600_000,
    )
    const midnight = Date.parse('2026-10-25T23:00:00Z')
    expect(fixedWindow.charge(state, 1, midnight - 1, limit, 0).decision.allowed).toBe(false)
    expect(fixedWindow.charge(state, 1, midnight, limit, 0).decision.allowed).toBe(true)
  })
})

const limits = fc
  .record({ limit: fc.integer({ min: 1, max: 500 }), per: fc.integer({ min: 1, max: 10_000 }) })
  .map(({ limit, per }) => params(limit, per))

const steps = fc.array(
  fc.record({ waitMs: fc.nat({ max: 5_000 }), cost: fc.integer({ min: -30, max: 80 }) }),
  { minLength: 1, maxLength: 60 },
)

describe('fixed window, whatever the history', () => {
  it('never admits more than the limit in a window, net of refunds, nor counts below zero', () => {
    fc.assert(
      fc.property(limits, steps, (limit, history) => {
        const perWindow = new Map<number, number>()
        let state: FixedWindowState | undefined
        let now = 0
        for (const { waitMs, cost } of history) {
          now += waitMs
          const window = Math.floor(now / limit.per)
          const count = perWindow.get(window) ?? 0
          if (cost < 0) {
            state = fixedWindow.adjust(state, cost, now, limit)
            perWindow.set(window, Math.max(0, count + cost))
            continue
          }
          const judged = fixedWindow.charge(state, cost, now, limit, 0)
          state = judged.state
          perWindow.set(window, count + judged.decision.granted)
          expect(perWindow.get(window)).toBeLessThanOrEqual(limit.limit)
          expect(judged.decision.remaining).toBe(limit.limit - count - judged.decision.granted)
        }
      }),
    )
  })

  it('has exact retry and reset times', () => {
    fc.assert(
      fc.property(limits, steps, fc.integer({ min: 1, max: 99 }), (limit, history, cost) => {
        let state: FixedWindowState | undefined
        let now = 0
        for (const step of history) {
          now += step.waitMs
          state = fixedWindow.charge(state, Math.abs(step.cost), now, limit, 0).state
        }
        untilAdmitted(fixedWindow, state, cost, now, limit)
      }),
    )
  })
})
