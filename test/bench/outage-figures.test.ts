/** The figures of an outage, computed from the results of its requests. */

import { expect, test } from 'vitest'
import { outageFigure, type RequestResult } from '../../bench/parts/outage/figures.ts'

const outage = { startedMs: 1_000, endedMs: 2_000, watchedUntilMs: 3_000 }

function result(
  startedMs: number,
  respondedMs: number | undefined,
  isShared: boolean,
): RequestResult {
  return { startedMs, respondedMs, isShared }
}

test('the first response counts from the start of the outage, a wait from its request', () => {
  const all = [
    result(900, 1_001, true),
    result(1_100, 1_115, false),
    result(1_200, 1_700, false),
    result(2_100, 2_130, false),
    result(2_200, 2_210, true),
  ]
  expect(outageFigure(outage, all)).toEqual({
    firstMs: 115,
    longestMs: 500,
    onTimeShare: 0.5,
    sharedAgainMs: 210,
    watchedMs: 1_000,
  })
})

test('a request without a response has waited until the end of the observation', () => {
  const figure = outageFigure(outage, [result(1_100, undefined, false)])
  expect(figure).toMatchObject({ firstMs: 2_000, longestMs: 1_900, onTimeShare: 0 })
  expect(figure.sharedAgainMs).toBeUndefined()
})
