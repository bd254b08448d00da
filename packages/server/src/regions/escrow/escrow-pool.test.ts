import { describe, expect, test } from 'vitest'
import {
  answered,
  type Block,
  blocksToSettle,
  isForgettable,
  leftOf,
  newPool,
  spend,
  tick,
  unanswered,
  unitsToAsk,
  unspend,
} from './escrow-pool.ts'

const settings = { regions: 3, roundTripMs: 90, capacity: 12_000 }

const block = (granted: number, sentMs: number): Block => ({
  ...{ id: `!${sentMs}`, granted, left: granted, sentMs },
})

describe('a pool', () => {
  test('spends its blocks, the oldest first, and nothing beyond', () => {
    const pool = newPool(0)
    answered(pool, block(5, 0), 100, 0)
    answered(pool, block(5, 10), 95, 10)
    expect(spend(pool, 7, 20)).toBe(true)
    expect(pool.blocks.map(({ left }) => left)).toEqual([0, 3])
    expect(spend(pool, 4, 20)).toBe(false)
    expect(leftOf(pool, 20)).toBe(3)
    unspend(pool, 2, 20)
    expect(leftOf(pool, 20)).toBe(5)
  })

  test('spends nothing of a block from 8 s after it was asked for', () => {
    const pool = newPool(0)
    answered(pool, block(5, 0), 100, 90)
    expect(spend(pool, 1, 7_999)).toBe(true)
    expect(spend(pool, 1, 8_000)).toBe(false)
    unspend(pool, 1, 8_000)
    expect(leftOf(pool, 8_000)).toBe(0)
  })

  test('settles a block that is used up, idle or older than 5 s, once', () => {
    const pool = newPool(0)
    answered(pool, block(5, 0), 100, 0)
    expect(blocksToSettle(pool, 900)).toEqual([])
    expect(blocksToSettle(pool, 1_001)).toMatchObject([{ left: 5 }])
    expect(blocksToSettle(pool, 1_002)).toEqual([])
    answered(pool, block(5, 1_000), 100, 1_000)
    spend(pool, 5, 1_500)
    expect(blocksToSettle(pool, 1_501)).toMatchObject([{ left: 0 }])
    answered(pool, block(5, 2_000), 100, 2_000)
    spend(pool, 1, 7_001)
    expect(blocksToSettle(pool, 7_001)).toMatchObject([{ left: 4 }])
  })

  test('leaves a block to the home that may have charged it already', () => {
    const pool = newPool(0)
    answered(pool, block(5, 0), 100, 0)
    expect(blocksToSettle(pool, 8_000)).toEqual([])
    expect(isForgettable(pool, 8_000)).toBe(true)
  })
})

describe('a request for units', () => {
  test('comes before the pool is empty, for the units of a second and the way', () => {
    const pool = newPool(0)
    for (let atMs = 0; atMs < 3_000; atMs += 10) {
      spend(pool, 1, atMs)
      tick(pool, atMs)
    }
    pool.known = 10_000
    expect(unitsToAsk(pool, 3_000, settings)).toBeCloseTo(138, -1)
    answered(pool, block(138, 3_000), 9_000, 3_090)
    expect(unitsToAsk(pool, 3_090, settings)).toBe(0)
    spend(pool, 110, 3_200)
    expect(unitsToAsk(pool, 3_200, settings)).toBeGreaterThan(0)
  })

  test('is for a twelfth of the units that three regions have left, and none of the last', () => {
    const pool = newPool(0)
    spend(pool, 5_000, 0)
    spend(pool, 5_000, 0)
    expect(unitsToAsk(pool, 1, settings)).toBe(250)
    pool.known = 1_200
    expect(unitsToAsk(pool, 1, settings)).toBe(100)
    pool.known = 11
    expect(unitsToAsk(pool, 1, settings)).toBe(0)
  })

  test('is not made for a key with less than two units per second, or while one is made', () => {
    const pool = newPool(0)
    expect(unitsToAsk(pool, 1_000, settings)).toBe(0)
    tick(pool, 1_000)
    spend(pool, 100, 1_000)
    expect(unitsToAsk(pool, 1_000, settings)).toBe(0)
    spend(pool, 100, 1_000)
    pool.isAsking = true
    expect(unitsToAsk(pool, 1_000, settings)).toBe(0)
    unanswered(pool, 1_000)
    expect(unitsToAsk(pool, 1_100, settings)).toBe(0)
    expect(unitsToAsk(pool, 1_200, settings)).toBeGreaterThan(0)
    // Two requests within a second make a key hot, and its last one does not keep it so.
    tick(pool, 1_600)
    spend(pool, 1, 1_600)
    expect(unitsToAsk(pool, 1_600, settings)).toBeGreaterThan(0)
    tick(pool, 2_600)
    expect(unitsToAsk(pool, 2_600, settings)).toBe(0)
  })
})
