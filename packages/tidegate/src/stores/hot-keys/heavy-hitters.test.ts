import { describe, expect, it } from 'vitest'
import { HeavyHitters } from './heavy-hitters.ts'

/** Many more than there is room for. */
const OTHERS = 100_000

describe('the keys that come most often', () => {
  it('are told with their calls of the last second, the most first', () => {
    const hitters = new HeavyHitters()
    for (let call = 0; call < 30; call++) hitters.add(`${call % 3}`, 1 + (call % 3), 10_000)
    const expected = [
      { key: '2', perSecond: 30 },
      { key: '1', perSecond: 20 },
    ]
    expect(hitters.top(2, 10_000)).toEqual(expected)
  })

  it('count less the longer ago they came, and nothing after two seconds', () => {
    const hitters = new HeavyHitters()
    hitters.add('key', 100, 10_999)
    expect(hitters.top(1, 11_250)).toEqual([{ key: 'key', perSecond: 75 }])
    expect(hitters.add('key', 1, 11_500)).toBe(51)
    expect(hitters.top(1, 13_000)).toEqual([])
  })

  it('are found among any number of others', () => {
    const hitters = new HeavyHitters()
    for (let other = 0; other < OTHERS; other++) {
      hitters.add(`${other}`, 1, 10_000)
      if (other % 1_000 === 0) hitters.add('hot', 1, 10_000)
    }
    const [hottest] = hitters.top(1, 10_000)
    expect(hottest?.key).toBe('hot')
    // Never too high, and too low by the calls divided by the room.
    expect(hottest?.perSecond).toBeLessThanOrEqual(100)
    expect(hottest?.perSecond).toBeGreaterThanOrEqual(100 - OTHERS / 4_096 - 1)
  })

  it('are found also if their calls are told all at once when there is no room', () => {
    const hitters = new HeavyHitters()
    for (let other = 0; other < 4_096; other++) hitters.add(`${other}`, 2, 10_000)
    hitters.add('hot', 500, 10_000)
    expect(hitters.top(1, 10_000)).toEqual([{ key: 'hot', perSecond: 498 }])
  })
})
