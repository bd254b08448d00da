/** From rounds to a ratio, and from ratios to texts. */

import { describe, expect, test } from 'vitest'
import { aimText, ratioText, spreadText } from '../../bench/harness/figures.ts'
import { outcomeOf } from '../../bench/harness/outcome.ts'
import type { Comparison } from '../../bench/harness/part.ts'
import { takeTurns } from '../../bench/harness/rounds.ts'
import { figure, rough } from '../../tools/charts/number-text.ts'

const comparison: Comparison = {
  name: 'x',
  what: 'x',
  ours: 'ours',
  peer: 'peer',
  unit: 'per second',
  rounds: [
    { ours: 100, peer: 50 },
    { ours: 300, peer: 50 },
    { ours: 200, peer: 100 },
  ],
}

describe('an outcome', () => {
  test('has the ratio of the medians, and the least and greatest of a round', () => {
    expect(outcomeOf(comparison)).toEqual({
      ours: 200,
      peer: 50,
      ratio: 4,
      ratioMin: 2,
      ratioMax: 6,
      isSlower: false,
      isAimMet: undefined,
    })
  })

  test('is inverted if less is better', () => {
    const { ratio, ratioMin, ratioMax, isSlower } = outcomeOf({ ...comparison, isLessBetter: true })
    expect([ratio, ratioMin, ratioMax, isSlower]).toEqual([1 / 4, 1 / 6, 1 / 2, true])
  })

  test.for([
    [4, true],
    [4.01, false],
  ] as const)('meets an aim of %d: %s', ([aim, isAimMet]) => {
    expect(outcomeOf({ ...comparison, aim }).isAimMet).toBe(isAimMet)
  })
})

test('contenders take turns, the order turns, and the first round is not counted', async () => {
  const ran: string[] = []
  const contender = (name: string) => ({ name, run: async () => ran.push(name) })
  const contenders = [contender('a'), contender('b'), contender('c')]
  const figures = await takeTurns({ progress: () => undefined }, 'x', contenders, 2)
  expect(ran.join('')).toBe('abcbcacab')
  expect([...figures.values()].map((rounds) => rounds.length)).toEqual([2, 2, 2])
})

test('a warm-up takes the place of the first round', async () => {
  const ran: string[] = []
  const contender = {
    name: 'a',
    run: async () => ran.push('run'),
    warmUp: async () => ran.push('warm-up'),
  }
  await takeTurns({ progress: () => undefined }, 'x', [contender], 1)
  expect(ran).toEqual(['warm-up', 'run'])
})

describe('texts', () => {
  test.for([
    [0.98, '0.98×'],
    [12.34, '12.3×'],
    [1234.5, '1,235×'],
    [Number.POSITIVE_INFINITY, '∞×'],
  ] as const)('of the ratio %d', ([ratio, expected]) => {
    expect(ratioText(ratio)).toBe(expected)
  })

  test.for([
    [123_456, '123,000'],
    [1_234, '1,230'],
    [345.6, '346'],
    [3.456, '3.46'],
    [0.01234, '0.0123'],
    [0, '0'],
  ] as const)('of the measured figure %d', ([value, expected]) => {
    expect(rough(value)).toBe(expected)
  })

  test('of cells keep the digits of their column, and words as they are', () => {
    expect([figure(2.5, 0), figure(1234, 1), figure('not seen'), figure(undefined)]).toEqual([
      ...['3', '1,234.0', 'not seen', ''],
    ])
  })

  test('of an outcome', () => {
    const outcome = outcomeOf({ ...comparison, aim: 5 })
    expect([spreadText(outcome), aimText(5, outcome), aimText(undefined, outcome)]).toEqual([
      ...['2.00 to 6.00', '5 missed', ''],
    ])
  })
})
