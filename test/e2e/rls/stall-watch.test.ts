import { expect, test } from 'vitest'
import { stalledMs } from './stall-watch.ts'

const stall = (fromMs: number, toMs: number) => ({ fromMs, toMs })

test.each([
  ['nothing', [], 0],
  ['before and after it', [stall(0, 10), stall(20, 30)], 0],
  ['within it', [stall(12, 15)], 3],
  ['around it', [stall(5, 25)], 10],
  ['across its ends', [stall(5, 12), stall(18, 40)], 4],
  ['twice at the same time', [stall(12, 16), stall(11, 14), stall(13, 15)], 5],
])('of a call from 10 to 20, a stall %s counts with what they share', (_, stalls, expected) => {
  expect(stalledMs(stalls, 10, 20)).toBe(expected)
})
