import { describe, expect, it } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import { type Row, runTable, untilAdmitted } from './table-contract.ts'
import { type TokenBucketState, tokenBucket, tokenBucketParams } from './token-bucket.ts'

const tenPerSecond = tokenBucketParams(10, 1_000, 10)
const threePerSecond = tokenBucketParams(3, 1_000, 3)
const burstOfTwenty = tokenBucketParams(10, 1_000, 20)

/** at, cost → allowed, remaining, retryAfterMs, resetAfterMs */
const tables: Record<string, { params: typeof tenPerSecond; rows: Row[] }> = {
  'the example of capacity 10, refilled by 10 per second': {
    params: tenPerSecond,
    rows: [
      [0, 10, true, 0, 0, 1_000],
      [0, 1, false, 0, 100, 1_000],
      [99, 1, false, 0, 1, 901],
      [100, 1, true, 0, 0, 1_000],
      [1_100, 0, true, 10, 0, 0],
      [1_500, 5, true, 5, 0, 500],
      [2_000, 0, true, 10, 0, 0],
    ],
  },
  'a third of a second per token, which is not a whole number of milliseconds': {
    params: threePerSecond,
    rows: [
      [0, 3, true, 0, 0, 1_000],
      [0, 1, false, 0, 334, 1_000],
      [333, 1, false, 0, 1, 667],
      [334, 1, true, 0, 0, 1_000],
      [667, 1, true, 0, 0, 1_000],
      [1_000, 1, true, 0, 0, 1_000],
      [2_000, 3, true, 0, 0, 1_000],
    ],
  },
  'a burst of twice the limit': {
    params: burstOfTwenty,
    rows: [
      [0, 20, true, 0, 0, 2_000],
      [0, 21, false, 0, Infinity, 2_000],
      [0, 20, false, 0, 2_000, 2_000],
      [500, 6, false, 5, 100, 1_500],
      [600, 6, true, 0, 0, 2_000],
    ],
  },
  'one per hour': {
    params: tokenBucketParams(1, 3_600_000, 1),
    rows: [
      [0, 1, true, 0, 0, 3_600_000],
      [3_599_999, 1, false, 0, 1, 1],
      [3_600_000, 1, true, 0, 0, 3_600_000],
    ],
  },
  'a limit of 0': {
    params: tokenBucketParams(0, 1_000, 5),
    rows: [
      [0, 1, false, 0, Infinity, 0],
      [0, 0, true, 0, 0, 0],
    ],
  },
}

describe('token bucket', () => {
  it.each(Object.entries(tables))('%s', (_, { params, rows }) => {
    runTable(tokenBucket, params, rows)
  })

  it('leaves 100 to a client that had used 100 when the limit is raised to 200', () => {
    const before = tokenBucketParams(100, 60_000, 100)
    const { state } = tokenBucket.charge(undefined, 100, 0, before, 0)
    const raised = tokenBucketParams(200, 60_000, 200)
    expect(tokenBucket.charge(state, 0, 0, raised, 0).decision.remaining).toBe(100)
    const blocked = tokenBucketParams(0, 60_000, 0)
    const denied = { allowed: false, limit: 0, remaining: 0, retryAfterMs: Infinity }
    expect(tokenBucket.charge(state, 1, 0, blocked, 0).decision).toMatchObject(denied)
  })

  it('keeps the level when limit and period change to other units', () => {
    const { state } = tokenBucket.charge(undefined, 5, 0, tokenBucketParams(10, 1_000, 10), 0)
    const perMinute = tokenBucketParams(7, 60_000, 10)
    expect(tokenBucket.charge(state, 0, 0, perMinute, 0).decision.remaining).toBe(5)
  })

  it('takes a level from the future as what it was, at most full, and moves it to now', () => {
    const { state } = tokenBucket.charge(undefined, 5, 10_000, tenPerSecond, 0)
    const little = tokenBucket.charge(state, 1, 9_900, tenPerSecond, 0)
    expect(little.decision.remaining).toBe(3)
    const far = tokenBucket.charge(state, 1, 0, tenPerSecond, 0)
    expect(far.decision).toMatchObject({ allowed: false, retryAfterMs: 100, resetAfterMs: 1_000 })
    expect(far.state?.time).toBe(0)
  })
})

const limits = fc
  .record({
    limit: fc.integer({ min: 1, max: 1_000 }),
    perMs: fc.integer({ min: 1, max: 100_000 }),
    burst: fc.integer({ min: 1, max: 2_000 }),
  })
  .map(({ limit, perMs, burst }) => tokenBucketParams(limit, perMs, burst))

const steps = fc.array(fc.record({ waitMs: fc.nat({ max: 20_000 }), cost: fc.nat({ max: 50 }) }), {
  minLength: 1,
  maxLength: 60,
})

describe('token bucket, whatever the history', () => {
  it('admits at most burst + limit × T / per in every interval T', () => {
    fc.assert(
      fc.property(limits, steps, (params, history) => {
        const admitted: Array<{ at: number; cost: number }> = []
        let state: TokenBucketState | undefined
        let now = 0
        for (const { waitMs, cost } of history) {
          now += waitMs
          const judged = tokenBucket.charge(state, cost, now, params, 0)
          state = judged.state
          if (judged.decision.allowed) admitted.push({ at: now, cost })
        }
        for (const [from, first] of admitted.entries()) {
          let total = 0
          for (const { at, cost } of admitted.slice(from)) {
            total += cost
            const most = params.burst * params.perMs + params.limit * (at - first.at)
            expect(total * params.perMs).toBeLessThanOrEqual(most)
          }
        }
      }),
    )
  })

  it('has exact retry and reset times', () => {
    fc.assert(
      fc.property(limits, steps, fc.integer({ min: 1, max: 60 }), (params, history, cost) => {
        let state: TokenBucketState | undefined
        let now = 0
        for (const step of history) {
          now += step.waitMs
          state = tokenBucket.charge(state, step.cost, now, params, 0).state
        }
        untilAdmitted(tokenBucket, state, cost, now, params)
      }),
    )
  })

  it('has no less left later, after a refund, or under a higher limit', () => {
    fc.assert(
      fc.property(limits, steps, fc.nat({ max: 99 }), (params, history, more) => {
        let state: TokenBucketState | undefined
        let now = 0
        for (const step of history) {
          now += step.waitMs
          state = tokenBucket.charge(state, step.cost, now, params, 0).state
        }
        const left = (at: number, from: TokenBucketState | undefined, under = params) =>
          tokenBucket.charge(from, 0, at, under, 0).decision.remaining
        const before = left(now, state)
        expect(left(now + more, state)).toBeGreaterThanOrEqual(before)
        const refunded = tokenBucket.adjust(state, -more, now, params)
        expect(left(now, refunded)).toBe(Math.min(params.burst, before + more))
        const raised = tokenBucketParams(params.limit, params.perMs, params.burst + more)
        expect(left(now, state, raised)).toBe(before + more)
      }),
    )
  })
})
