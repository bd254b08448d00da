/** What is told of an outage, from what became of its requests. */

import { expect, test } from 'vitest'
import { type Answer, outageFigure } from '../../bench/parts/outage-figures.ts'

const outage = { startedMs: 1_000, endedMs: 2_000, watchedUntilMs: 3_000 }

function answer(startedMs: number, answeredMs: number | undefined, isShared: boolean): Answer {
  return { startedMs, answeredMs, isShared }
}

test('the first answer counts from the beginning, the longest wait from its own request', () => {
  const all = [
    answer(900, 1_001, true),
    answer(1_100, 1_115, false),
    answer(1_200, 1_700, false),
    answer(2_100, 2_130, false),
    answer(2_200, 2_210, true),
  ]
  expect(outageFigure(outage, all)).toEqual({
    firstMs: 115,
    longestMs: 500,
    onTimeShare: 0.5,
    sharedAgainMs: 210,
    watchedMs: 1_000,
  })
})

test('a request without an answer has waited until nobody watched any more', () => {
  const figure = outageFigure(outage, [answer(1_100, undefined, false)])
  expect(figure).toMatchObject({ firstMs: 2_000, longestMs: 1_900, onTimeShare: 0 })
  expect(figure.sharedAgainMs).toBeUndefined()
})
