import { describe, expect, test } from 'vitest'
import { fc } from '../../../../../test/support/fast-check.ts'
import { compareStamps, nextStamp, parseStamp, receiveStamp, stampText } from './hlc.ts'

const stamp = fc.record({ ms: fc.nat(2 ** 31), count: fc.nat(65_535) })

describe('hybrid logical clocks', () => {
  test('every stamp is later than the one before, also if the wall clock jumps back', () => {
    fc.assert(
      fc.property(stamp, fc.nat(2 ** 31), (last, wallMs) => {
        const next = nextStamp(last, wallMs)
        expect(compareStamps(next, last)).toBeGreaterThan(0)
        expect(next.ms).toBeGreaterThanOrEqual(wallMs)
        expect(next.count).toBeLessThanOrEqual(65_535)
      }),
    )
  })

  test('a receipt is later than the message, and not before the wall clock', () => {
    fc.assert(
      fc.property(stamp, stamp, fc.nat(2 ** 31), (last, remote, wallMs) => {
        const { stamp: received, isMerged } = receiveStamp(last, remote, wallMs, 1_000)
        expect(isMerged).toBe(remote.ms - wallMs <= 1_000)
        expect(compareStamps(received, last)).toBeGreaterThan(0)
        expect(received.ms).toBeGreaterThanOrEqual(wallMs)
        if (isMerged) expect(compareStamps(received, remote)).toBeGreaterThan(0)
      }),
    )
  })

  test('a clock that is an hour ahead does not move the others', () => {
    const remote = { ms: 3_600_000, count: 0 }
    const { stamp: received, isMerged } = receiveStamp({ ms: 5, count: 0 }, remote, 10)
    expect({ received, isMerged }).toEqual({ received: { ms: 10, count: 0 }, isMerged: false })
  })

  test('texts are in the order of the stamps', () => {
    fc.assert(
      fc.property(stamp, stamp, (one, other) => {
        const order = compareStamps(one, other)
        const texts = [stampText(one), stampText(other)] as const
        expect(Math.sign(order)).toBe(texts[0] < texts[1] ? -1 : texts[0] > texts[1] ? 1 : 0)
        expect(parseStamp(texts[0])).toEqual(one)
      }),
    )
  })
})
