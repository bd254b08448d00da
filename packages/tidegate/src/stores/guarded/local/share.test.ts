import { describe, expect, it } from 'vitest'
import { fc } from '../../../../../../test/support/fast-check.ts'
import type { Limit } from '../../../algorithms/limit.ts'
import { manualClock } from '../../../clock.ts'
import {
  concurrency,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../../limits/limits.ts'
import { memoryStore } from '../../memory/memory-store.ts'
import { shareOf } from './share.ts'

const PER_MS = 10_000

const makers: Record<string, (limit: number) => Limit> = {
  tokenBucket: (limit) => tokenBucket({ limit, per: `${PER_MS}ms` }),
  slidingWindow: (limit) => slidingWindow({ limit, per: `${PER_MS}ms` }),
  slidingLog: (limit) => slidingLog({ limit, per: `${PER_MS}ms` }),
  fixedWindow: (limit) => fixedWindow({ limit, per: `${PER_MS}ms` }),
}

/** Units that a process gets which asks for one at a time, as often as it can. */
function admitted(limit: Limit, forMs: number): number {
  const clock = manualClock(0)
  const store = memoryStore({ clock })
  let units = 0
  while (clock.now() < forMs) {
    const { allowed, retryAfterMs } = store.chargeOne({ name: 'limit', limit, key: 'key' }, 1)
    if (allowed) units++
    else clock.advance(retryAfterMs)
  }
  return units
}

describe.each(Object.entries(makers))('a share of %s', (_name, make) => {
  it('is the limit itself for the only process', () => {
    const limit = make(10)
    expect(shareOf(limit, 1)).toBe(limit)
  })

  it('is a third of it for each of three, rounded down', () => {
    const share = shareOf(make(10), 3)
    expect(admitted(share, 1)).toBe(3)
    // The weighted window gives less than its limit to a client that spends it in one burst.
    const units = admitted(share, PER_MS * 100)
    expect(units).toBeGreaterThanOrEqual(200)
    expect(units).toBeLessThanOrEqual(336)
  })

  it('is one, less often, where there are more processes than units', () => {
    const share = shareOf(make(2), 5)
    expect(admitted(share, 1)).toBe(1)
    const units = admitted(share, PER_MS * 300)
    expect(units).toBeGreaterThanOrEqual(50)
    expect(units).toBeLessThanOrEqual(121)
  })

  it('is nothing of nothing', () => {
    expect(admitted(shareOf(make(0), 3), 1)).toBe(0)
  })

  it('adds up to the limit at most, for any limit that is enough for all', () => {
    const sizes = fc.tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 60 }))
    fc.assert(
      fc.property(sizes, ([nodes, more]) => {
        const limit = make(nodes + more)
        const share = shareOf(limit, nodes)
        expect(nodes * admitted(share, 1)).toBeLessThanOrEqual(limit.limit)
        const periods = 20
        const all = nodes * admitted(share, PER_MS * periods)
        expect(all).toBeLessThanOrEqual(limit.limit * (periods + 1))
      }),
    )
  })

  it('adds up over time to the limit at most, also where it is not enough for all', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 10, max: 50 }),
        (units, nodes) => {
          const share = shareOf(make(units), nodes)
          const periods = 200
          // One each to begin with, as they do not know of one another.
          const all = nodes * (admitted(share, PER_MS * periods) - 1)
          expect(all).toBeLessThanOrEqual(units * periods)
        },
      ),
      { numRuns: 30 },
    )
  })
})

describe('a share', () => {
  it('of a burst is a part of the burst, at a part of the rate', () => {
    const share = shareOf(tokenBucket({ limit: 100, per: '1s', burst: 30 }), 3)
    expect(share).toMatchObject({ burst: 10, limit: 100, perMs: 3_000 })
    expect(admitted(share, 1)).toBe(10)
  })

  it('of slots is a part of the slots, at least one', () => {
    expect(shareOf(concurrency({ limit: 10, ttl: '1m' }), 3)).toMatchObject({ limit: 3 })
    expect(shareOf(concurrency({ limit: 2, ttl: '1m' }), 3)).toMatchObject({ limit: 1 })
  })

  it('of a calendar keeps to the calendar', () => {
    const limit = fixedWindow({ limit: 10, per: 'day', timeZone: 'Europe/Berlin' })
    const per = { unit: 'day', timeZone: 'Europe/Berlin' }
    expect(shareOf(limit, 3)).toMatchObject({ limit: 3, per })
    expect(shareOf(limit, 30)).toMatchObject({ limit: 1, per })
  })
})
