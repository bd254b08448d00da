import { describe, expect, it } from 'vitest'
import { fc } from '../../../../test/support/fast-check.ts'
import { concurrency } from './concurrency.ts'
import { addHold, chargeWithHolds, dropHold, type Holds, openHolds } from './holds.ts'
import { tokenBucket, tokenBucketParams } from './token-bucket.ts'

const hold = (id: string, units: number, expiresAt: number) => ({
  id,
  units,
  ttlMs: 1_000,
  expiresAt,
})

describe('holds', () => {
  it('are kept in the order of their expiry, and dropped by id', () => {
    const holds = [hold('b', 1, 20), hold('a', 1, 10), hold('c', 1, 20)].reduce(
      addHold,
      [] as Holds,
    )
    expect(holds.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
    expect(dropHold(holds, 'b').map(({ id }) => id)).toEqual(['a', 'c'])
  })

  it('are open until just before their expiry', () => {
    const holds = [hold('a', 1, 1_000), hold('b', 1, 1_001)]
    expect(openHolds(holds, 999)).toBe(holds)
    expect(openHolds(holds, 1_000).map(({ id }) => id)).toEqual(['b'])
  })

  it('last no longer than they were granted for, whatever the clock does', () => {
    const [open] = openHolds([hold('a', 1, 3_600_000)], 0)
    expect(open?.expiresAt).toBe(1_000)
  })

  it('make the retry time the expiry that frees enough, or the later refill', () => {
    const limit = tokenBucketParams(10, 1_000, 10)
    const { state } = tokenBucket.charge(undefined, 2, 0, limit, 0)
    const holds = [hold('a', 5, 50), hold('b', 3, 500)]
    const retry = (cost: number) =>
      chargeWithHolds(tokenBucket, state, holds, cost, 0, limit).decision.retryAfterMs
    expect(retry(1)).toBe(50)
    expect(retry(5)).toBe(50)
    expect(retry(6)).toBe(100)
    expect(retry(7)).toBe(200)
    expect(retry(8)).toBe(500)
    expect(retry(11)).toBe(Infinity)
  })

  it('are all there is in a concurrency limit', () => {
    const limit = { algorithm: 'concurrency' as const, limit: 2, ttlMs: 1_000 }
    const holds = [hold('a', 1, 300), hold('b', 1, 700)]
    const { decision } = chargeWithHolds(concurrency, undefined, holds, 1, 0, limit)
    const full = { allowed: false, remaining: 0, retryAfterMs: 300, resetAfterMs: 700 }
    expect(decision).toMatchObject(full)
  })

  it('have exact retry times, whatever is held', () => {
    const holdsOf = fc.array(
      fc.record({
        units: fc.integer({ min: 1, max: 5 }),
        expiresAt: fc.integer({ min: 1, max: 999 }),
      }),
      { maxLength: 6 },
    )
    fc.assert(
      fc.property(
        holdsOf,
        fc.nat({ max: 20 }),
        fc.integer({ min: 1, max: 20 }),
        (list, used, cost) => {
          const limit = tokenBucketParams(7, 1_000, 20)
          const state = tokenBucket.adjust(undefined, used, 0, limit)
          const holds = list
            .map(({ units, expiresAt }, at) => hold(String(at), units, expiresAt))
            .reduce(addHold, [] as Holds)
          const at = (now: number) =>
            chargeWithHolds(tokenBucket, state, openHolds(holds, now), cost, now, limit).decision
          const { allowed, retryAfterMs } = at(0)
          if (allowed) return
          expect(at(retryAfterMs).allowed).toBe(true)
          expect(at(retryAfterMs - 1).allowed).toBe(false)
        },
      ),
    )
  })
})
