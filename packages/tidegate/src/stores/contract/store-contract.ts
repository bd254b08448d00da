/**
 * The store contract as tests. Every store passes it unchanged; a store of your own should, too.
 * Time is handed to the store, so that nothing here sleeps.
 */

import { describe, expect, it } from 'vitest'
import type { Limit } from '../../algorithms/limit.ts'
import { type Clock, type ManualClock, manualClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import {
  concurrency,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../limits/limits.ts'
import { chargeSingle } from '../charge-one.ts'
import type { Charge, ChargeMode, MaybePromise, Store } from '../store.ts'

/** Makes an empty store that takes its time from the clock. */
export type MakeStore = (clock: Clock) => MaybePromise<Store>

/** The middle of a minute, so that a window has a past and a future. */
const START_MS = 1_700_000_010_000

const HOUR_MS = 3_600_000

const limits = {
  tokenBucket: tokenBucket({ limit: 5, per: '10s' }),
  slidingWindow: slidingWindow({ limit: 5, per: '10s' }),
  slidingLog: slidingLog({ limit: 5, per: '10s' }),
  fixedWindow: fixedWindow({ limit: 5, per: '10s' }),
}

const hourly = {
  tokenBucket: tokenBucket({ limit: 10, per: '1h' }),
  slidingWindow: slidingWindow({ limit: 10, per: '1h' }),
  slidingLog: slidingLog({ limit: 10, per: '1h' }),
  fixedWindow: fixedWindow({ limit: 10, per: '1h' }),
}

export function storeContract(make: MakeStore): void {
  describe('store contract', () => {
    describe.each(Object.entries(limits))('%s', (_, limit) => countsExactly(make, limit))
    describe('groups', () => groupsAreAllOrNothing(make))
    describe.each(Object.entries(hourly))('holds on %s', (_, limit) => holdUnits(make, limit))
    describe('slots', () => slotsAreHolds(make))
    describe('counters', () => countersAreApart(make))
  })
}

interface Bench {
  readonly store: Store
  readonly clock: ManualClock
  /** Charges one counter. */
  charge(cost: number, more?: Partial<Charge> & { mode?: ChargeMode }): Promise<Decision>
  adjust(units: number, release?: string): Promise<Decision>
  renew(id: string, ttlMs: number): Promise<Decision>
}

/** A test on a fresh store, closed at its end, with one limit at hand. */
function test(name: string, make: MakeStore, limit: Limit, body: (bench: Bench) => Promise<void>) {
  it(name, async () => {
    const clock = manualClock(START_MS)
    const store = await make(clock)
    const counter = { name: 'limit', key: 'key', limit }
    const bench: Bench = {
      store,
      clock,
      async charge(cost, { mode = 'all', ...more } = {}) {
        const decisions = await store.charge([{ ...counter, cost, ...more }], mode)
        return decisions[0] as Decision
      },
      async adjust(units, release) {
        const adjustment = { ...counter, units, ...(release === undefined ? {} : { release }) }
        return (await store.adjust([adjustment]))[0] as Decision
      },
      async renew(id, ttlMs) {
        const adjustment = { ...counter, units: 0, renews: { id, ttlMs } }
        return (await store.adjust([adjustment]))[0] as Decision
      },
    }
    await body(bench).finally(() => store.close())
  })
}

function countsExactly(make: MakeStore, limit: Limit): void {
  test('admits five of five, denies the sixth, and says what is left', make, limit, async (on) => {
    for (const remaining of [4, 3, 2, 1, 0]) {
      const admitted = { allowed: true, limit: 5, remaining, retryAfterMs: 0, granted: 1 }
      expect(await on.charge(1)).toMatchObject(admitted)
    }
    expect(await on.charge(1)).toMatchObject({ allowed: false, remaining: 0, granted: 0 })
  })

  test('charges one counter as a group of one', make, limit, async ({ store, charge }) => {
    const counter = { name: 'limit', key: 'key', limit }
    expect(await chargeSingle(store, counter, 3)).toMatchObject({ granted: 3, remaining: 2 })
    expect(await chargeSingle(store, counter, 3)).toMatchObject({ allowed: false, remaining: 2 })
    expect(await charge(2)).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('charges nothing to a denied request', make, limit, async (on) => {
    await on.charge(3)
    expect((await on.charge(4)).allowed).toBe(false)
    expect(await on.charge(2)).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('admits after the retry time and not 1 ms before', make, limit, async (on) => {
    for (const cost of [1, 3, 5]) {
      const key = `cost ${cost}`
      await on.charge(5, { key })
      const { retryAfterMs } = await on.charge(cost, { key })
      on.clock.advance(retryAfterMs - 1)
      expect((await on.charge(cost, { key })).allowed).toBe(false)
      on.clock.advance(1)
      expect((await on.charge(cost, { key })).allowed).toBe(true)
    }
  })

  test('has nothing used after the reset time, and something before', make, limit, async (on) => {
    const { resetAfterMs } = await on.charge(5)
    on.clock.advance(resetAfterMs - 1)
    expect((await on.charge(0)).resetAfterMs).toBe(1)
    on.clock.advance(1)
    expect(await on.charge(0)).toMatchObject({ remaining: 5, resetAfterMs: 0 })
  })

  test('never grants more than the limit at once', make, limit, async (on) => {
    expect(await on.charge(6)).toMatchObject({ allowed: false, retryAfterMs: Infinity })
    expect(await on.charge(5)).toMatchObject({ allowed: true })
  })

  test('grants in part what there is', make, limit, async (on) => {
    await on.charge(2)
    const partial = { allowed: true, granted: 3, remaining: 0, retryAfterMs: 0 }
    expect(await on.charge(10, { mode: 'partial' })).toMatchObject(partial)
    expect(await on.charge(10, { mode: 'partial' })).toMatchObject({ allowed: false, granted: 0 })
  })

  test('changes nothing by looking', make, limit, async (on) => {
    await on.charge(4)
    expect(await on.charge(2, { mode: 'peek' })).toMatchObject({ allowed: false, remaining: 1 })
    expect(await on.charge(1, { mode: 'peek' })).toMatchObject({ allowed: true, remaining: 1 })
    expect(await on.charge(0)).toMatchObject({ allowed: true, remaining: 1, granted: 0 })
    expect(await on.charge(1)).toMatchObject({ allowed: true, remaining: 0 })
    expect(await on.charge(0)).toMatchObject({ allowed: true, remaining: 0, retryAfterMs: 0 })
  })

  test('gives back, never below nothing used', make, limit, async (on) => {
    await on.charge(5)
    expect((await on.adjust(-2)).remaining).toBe(2)
    expect(await on.adjust(-9)).toMatchObject({ remaining: 5, resetAfterMs: 0 })
    expect((await on.charge(6)).allowed).toBe(false)
    expect((await on.charge(5)).allowed).toBe(true)
  })

  test('adds without asking, also beyond the limit', make, limit, async (on) => {
    await on.charge(4)
    expect(await on.adjust(3)).toMatchObject({ remaining: 0 })
    expect((await on.charge(1)).allowed).toBe(false)
  })

  test('applies a changed limit to the next request', make, limit, async (on) => {
    await on.charge(5)
    const raised = limitOf(limit, 10)
    expect((await on.charge(0, { limit: raised })).remaining).toBe(5)
    const blocked = limitOf(limit, 0)
    expect(await on.charge(1, { limit: blocked })).toMatchObject({ allowed: false, remaining: 0 })
    expect((await on.charge(0, { limit: raised })).remaining).toBe(5)
  })

  test('forgets at a reset', make, limit, async (on) => {
    await on.charge(5)
    await on.store.reset([{ name: 'limit', key: 'key', limit }])
    expect((await on.charge(5)).allowed).toBe(true)
  })

  test('admits exactly the limit of many at once', make, limit, async (on) => {
    const decisions = await Promise.all(Array.from({ length: 200 }, () => on.charge(1)))
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(5)
  })

  test('survives a clock that jumps back', make, limit, async (on) => {
    await on.charge(5)
    on.clock.jump(-HOUR_MS)
    const denied = await on.charge(1)
    expect(denied).toMatchObject({ allowed: false, remaining: 0 })
    expect(denied.retryAfterMs).toBeLessThanOrEqual(10_000 + 2_000)
    on.clock.advance(denied.retryAfterMs)
    expect((await on.charge(1)).allowed).toBe(true)
  })

  test('survives a clock that jumps ahead and back again', make, limit, async (on) => {
    await on.charge(5)
    on.clock.jump(HOUR_MS)
    expect((await on.charge(5)).allowed).toBe(true)
    expect((await on.charge(1)).allowed).toBe(false)
    on.clock.jump(-HOUR_MS)
    expect((await on.charge(1)).allowed).toBe(false)
  })
}

/** Returns the limit with other units; a new object, because parameters may depend on them. */
function limitOf(limit: Limit, units: number): Limit {
  const made = {
    tokenBucket: tokenBucket({ limit: units, per: '10s' }),
    slidingWindow: slidingWindow({ limit: units, per: '10s' }),
    slidingLog: slidingLog({ limit: units, per: '10s' }),
    fixedWindow: fixedWindow({ limit: units, per: '10s' }),
    concurrency: concurrency({ limit: units, ttl: '10s' }),
  }
  return made[limit.algorithm]
}

function groupsAreAllOrNothing(make: MakeStore): void {
  const narrow = { name: 'narrow', key: 'a', limit: tokenBucket({ limit: 3, per: '10s' }) }
  const wide = { name: 'wide', key: 'a', limit: fixedWindow({ limit: 10, per: '10s' }) }
  const charges = (cost: number) => [
    { ...narrow, cost },
    { ...wide, cost },
  ]

  test('charge every limit or none, and tell each its own', make, narrow.limit, async (on) => {
    expect(await on.store.charge(charges(3), 'all')).toMatchObject([
      { allowed: true, remaining: 0 },
      { allowed: true, remaining: 7 },
    ])
    expect(await on.store.charge(charges(1), 'all')).toMatchObject([
      { allowed: false, remaining: 0, granted: 0 },
      { allowed: true, remaining: 7, granted: 0 },
    ])
  })

  test('grant in part what all of them have', make, narrow.limit, async (on) => {
    expect(await on.store.charge(charges(8), 'partial')).toMatchObject([
      { allowed: true, granted: 3, remaining: 0 },
      { allowed: true, granted: 3, remaining: 7 },
    ])
  })

  test('change nothing by looking', make, narrow.limit, async (on) => {
    await on.store.charge(charges(2), 'peek')
    expect(await on.store.charge(charges(2), 'peek')).toMatchObject([
      { allowed: true, remaining: 3 },
      { allowed: true, remaining: 10 },
    ])
  })

  test(
    'charge nothing of 100 concurrent groups beyond the narrowest',
    make,
    narrow.limit,
    async (on) => {
      const groups = Array.from({ length: 100 }, () => on.store.charge(charges(1), 'all'))
      const decisions = await Promise.all(groups)
      const admitted = decisions.filter((group) => group.every(({ allowed }) => allowed))
      expect(admitted).toHaveLength(3)
      const [left] = await on.store.charge([{ ...wide, cost: 0 }], 'all')
      expect(left?.remaining).toBe(7)
    },
  )
}

const hold = (id: string, ttlMs = 5_000) => ({ hold: { id, ttlMs } })

function holdUnits(make: MakeStore, limit: Limit): void {
  test('keep units from everybody else', make, limit, async (on) => {
    expect(await on.charge(7, hold('a'))).toMatchObject({ allowed: true, granted: 7, remaining: 3 })
    expect(await on.charge(4)).toMatchObject({ allowed: false, remaining: 3, retryAfterMs: 5_000 })
    expect(await on.charge(3)).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('become a charge of what was really spent', make, limit, async (on) => {
    await on.charge(7, hold('a'))
    expect(await on.adjust(2, 'a')).toMatchObject({ remaining: 8 })
    on.clock.advance(5_000)
    expect((await on.charge(0)).remaining).toBe(8)
  })

  test('are given back by a release', make, limit, async (on) => {
    await on.charge(7, hold('a'))
    expect(await on.adjust(0, 'a')).toMatchObject({ remaining: 10, resetAfterMs: 0 })
  })

  test('expire if they are not settled, and not before', make, limit, async (on) => {
    expect((await on.charge(7, hold('a'))).resetAfterMs).toBe(5_000)
    on.clock.advance(4_999)
    expect((await on.charge(0)).remaining).toBe(3)
    on.clock.advance(1)
    expect((await on.charge(0)).remaining).toBe(10)
  })

  test('may be settled after their time', make, limit, async (on) => {
    await on.charge(7, hold('a'))
    on.clock.advance(6_000)
    expect((await on.adjust(7, 'a')).remaining).toBe(3)
  })

  test('do not outlast their time when the clock jumps back', make, limit, async (on) => {
    await on.charge(7, hold('a'))
    on.clock.jump(-HOUR_MS)
    expect(await on.charge(4)).toMatchObject({ allowed: false, retryAfterMs: 5_000 })
    on.clock.advance(5_000)
    expect((await on.charge(4)).allowed).toBe(true)
  })

  test('are forgotten at a reset', make, limit, async (on) => {
    await on.charge(7, hold('a'))
    await on.store.reset([{ name: 'limit', key: 'key', limit }])
    expect((await on.charge(10)).allowed).toBe(true)
  })

  test('stand beside what was charged before', make, limit, async (on) => {
    await on.charge(2)
    await on.charge(7, hold('a'))
    await on.adjust(-1)
    expect((await on.charge(0)).remaining).toBe(2)
    await on.adjust(0, 'a')
    expect((await on.charge(0)).remaining).toBe(9)
  })
}

function slotsAreHolds(make: MakeStore): void {
  const slots = concurrency({ limit: 2, ttl: '30s' })

  test('are taken, released, and free when their time is over', make, slots, async (on) => {
    expect(await on.charge(1, hold('a'))).toMatchObject({ allowed: true, remaining: 1 })
    on.clock.advance(1_000)
    expect(await on.charge(1, hold('b'))).toMatchObject({ allowed: true, remaining: 0 })
    expect(await on.charge(1, hold('c'))).toMatchObject({ allowed: false, retryAfterMs: 4_000 })
    await on.adjust(0, 'b')
    expect((await on.charge(1, hold('c'))).allowed).toBe(true)
    on.clock.advance(4_000)
    expect((await on.charge(1, hold('d'))).allowed).toBe(true)
  })

  test('last for their time from the latest renewal on', make, slots, async (on) => {
    await on.charge(1, hold('a'))
    await on.charge(1, hold('b'))
    on.clock.advance(4_000)
    expect(await on.renew('a', 5_000)).toMatchObject({ allowed: true, remaining: 0 })
    on.clock.advance(1_000)
    expect((await on.charge(0)).remaining).toBe(1)
    on.clock.advance(3_999)
    expect((await on.charge(0)).remaining).toBe(1)
    on.clock.advance(1)
    expect((await on.charge(0)).remaining).toBe(2)
  })

  test('are not taken back by a renewal when their time is over', make, slots, async (on) => {
    await on.charge(1, hold('a'))
    on.clock.advance(5_000)
    await on.charge(1, hold('b'))
    await on.charge(1, hold('c'))
    expect(await on.renew('a', 5_000)).toMatchObject({ allowed: false, remaining: 0 })
    await on.adjust(0, 'b')
    expect(await on.renew('b', 5_000)).toMatchObject({ allowed: false, remaining: 1 })
    expect((await on.charge(1, hold('d'))).allowed).toBe(true)
    expect((await on.charge(1, hold('e'))).allowed).toBe(false)
  })
}

function countersAreApart(make: MakeStore): void {
  const limit = tokenBucket({ limit: 1, per: '10s' })

  test('by key, by name and by algorithm', make, limit, async (on) => {
    expect((await on.charge(1)).allowed).toBe(true)
    expect((await on.charge(1, { key: 'other' })).allowed).toBe(true)
    expect((await on.charge(1, { name: 'other' })).allowed).toBe(true)
    const window = fixedWindow({ limit: 1, per: '10s' })
    expect((await on.charge(1, { limit: window })).allowed).toBe(true)
    expect((await on.charge(1)).allowed).toBe(false)
  })

  test('whatever the keys are made of', make, limit, async (on) => {
    const keys = [
      ...['a:b', 'a', 'b', '{a}b', '}', 'a\0b', 'a\r\nb'],
      ...['\ud800', '\udc00', '__proto__', 'ä'],
      'x'.repeat(1024),
    ]
    for (const key of keys) expect((await on.charge(1, { key })).allowed).toBe(true)
    for (const key of keys) expect((await on.charge(1, { key })).allowed).toBe(false)
    const odd = await on.store.charge(
      [
        { name: 'a', key: 'b:c', limit, cost: 1 },
        { name: 'a:b', key: 'c', limit, cost: 1 },
      ],
      'all',
    )
    expect(odd).toMatchObject([{ allowed: true }, { allowed: true }])
  })
}
