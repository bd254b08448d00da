import { fixedWindow, slidingWindow, tokenBucket } from 'tidegate'
import { expect, test } from 'vitest'
import { canGiveBack } from './give-back.ts'

const minute = { limit: 10, per: '1m' } as const

test.each([
  ['in the middle of a window', fixedWindow(minute), 30_000, 250, true],
  ['in the last second of a window', fixedWindow(minute), 1_000, 0, false],
  ['after the window of the charge', fixedWindow(minute), 4_000, 4_000, false],
  ['while leases hide the end of the window', fixedWindow(minute), 60_001, 0, false],
  ['in a sliding window', slidingWindow(minute), 90_000, 250, true],
  ['in the window after that of the charge', slidingWindow(minute), 62_000, 2_000, false],
  ['while a bucket is not empty', tokenBucket(minute), 6_000, 250, true],
  ['after a bucket was empty', tokenBucket(minute), 1_200, 250, false],
])('units %s', (_, limit, resetAfterMs, elapsedMs, isGivenBack) => {
  expect(canGiveBack(limit, { resetAfterMs }, elapsedMs)).toBe(isGivenBack)
})
