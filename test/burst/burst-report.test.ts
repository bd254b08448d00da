import { expect, test } from 'vitest'
import { type BurstAnswer, BurstTally, countsOf, exact } from './burst-report.ts'

const admitted: BurstAnswer = { allowed: true, retryAfterMs: 0, degraded: null }
const denied: BurstAnswer = { allowed: false, retryAfterMs: 1_000, degraded: null }
const shed: BurstAnswer = { ...denied, degraded: { reason: 'overloaded', mode: 'shed' } }
const open: BurstAnswer = { ...admitted, degraded: { reason: 'timeout', mode: 'open' } }

function reportOf(answers: readonly BurstAnswer[], limit = 2) {
  const tally = new BurstTally(limit)
  for (const answer of answers) tally.answered(1, answer)
  return tally.report()
}

test.for([
  { what: 'the limit and denials', answers: [admitted, admitted, denied], over: 0, under: 0 },
  { what: 'one more than the limit', answers: [admitted, admitted, open], over: 1, under: 0 },
  { what: 'a denial with room left', answers: [admitted, denied], over: 0, under: 1 },
  { what: 'fewer calls than the limit', answers: [admitted], over: 0, under: 0 },
  { what: 'room that shed calls left', answers: [admitted, shed, shed], over: 0, under: 0 },
  { what: 'a denial beside shed calls', answers: [shed, denied, admitted], over: 0, under: 1 },
])('$what: $over over, $under under', ({ answers, over, under }) => {
  expect(reportOf(answers)).toMatchObject({ calls: answers.length, over, under })
})

test('a key does not make up for another', () => {
  const tally = new BurstTally(1)
  for (const answer of [admitted, admitted]) tally.answered(1, answer)
  tally.answered(2, denied)
  expect(tally.report()).toMatchObject({ admitted: 2, over: 1, under: 1 })
})

test('degraded answers are counted by reason, mode and outcome, and rejections by message', () => {
  const tally = new BurstTally(3)
  for (const answer of [open, shed, { ...shed, retryAfterMs: 1_200 }]) tally.answered(1, answer)
  tally.failed(1, new Error('lost'))
  const report = tally.report()
  expect(countsOf(report)).toEqual({
    ...exact,
    calls: 4,
    admitted: 1,
    degraded: { 'timeout, open: admitted': 1, 'overloaded, shed: denied': 2 },
    failures: { 'Error: lost': 1 },
  })
  expect(report).toMatchObject({ shed: 2, shedWaits: 2 })
})
