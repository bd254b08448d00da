import { describe, expect, test } from 'vitest'
import { fixedWindow, tokenBucket } from '../../limits/limits.ts'
import { type BoundsOptions, regionBounds } from './bounds.ts'

const regions = ['ap', 'eu', 'us'].map((name) => ({ name, parts: 1 }))
const limit = fixedWindow({ limit: 900, per: '1m' })

function boundsOf(options: Omit<BoundsOptions, 'limit' | 'regions'>) {
  return regionBounds({ limit, regions, ...options })
}

describe('bounds of a mode', () => {
  test.for([
    { options: { mode: 'local' } as const, over: 1_800, under: 0, ms: 0 },
    { options: { mode: 'partition' } as const, over: 0, under: 600, ms: 0 },
    { options: { mode: 'shared' } as const, over: 600, under: 600, ms: 0 },
    { options: { mode: 'shared', blind: 3 } as const, over: 1_800, under: 0, ms: 0 },
    { options: { mode: 'home' } as const, over: 0, under: 60, ms: 90 },
    { options: { mode: 'escrow' } as const, over: 0, under: 60, ms: 0 },
    { options: { mode: 'escrow', reserve: 0 } as const, over: 0, under: 0, ms: 0 },
  ])('are numbers: $options', ({ options, over, under, ms }) => {
    const { overage, underUse, latencyMs } = boundsOf(options)
    expect({ overage, underUse, latencyMs }).toEqual({
      overage: over,
      underUse: under,
      latencyMs: ms,
    })
  })

  test('no mode without messages escapes the law of overage and under-use', () => {
    for (const blind of [1, 2, 3]) {
      const { overage, underUse } = boundsOf({ mode: 'shared', blind })
      // Cautious regions fall back to their shares, so that overage needs messages.
      const alone = 900 - underUse
      expect(3 * alone - 900 + 3 * underUse).toBe(2 * 900)
      expect(overage).toBe(2 * alone)
    }
  })

  test('a lone region has 90 % after a time that the regions and the link decide', () => {
    expect(boundsOf({ mode: 'shared' }).mostAfterMs).toBe(2_215)
    expect(boundsOf({ mode: 'shared', roundTripMs: 0 }).mostAfterMs).toBe(1_704)
  })

  test('the smallest region decides', () => {
    const uneven = [
      { name: 'eu', parts: 3 },
      { name: 'us', parts: 1 },
    ]
    const bucket = tokenBucket({ limit: 10, per: '1s', burst: 100 })
    const { overage, underUse } = regionBounds({ mode: 'shared', limit: bucket, regions: uneven })
    expect({ overage, underUse }).toEqual({ overage: 75, underUse: 75 })
  })

  test('are a sentence', () => {
    expect(boundsOf({ mode: 'shared' }).sentence).toBe(
      'shared: at most 1500 instead of 900 in all regions; ' +
        'a lone region has 300 at once, and 90 % after 2.2 s',
    )
    expect(boundsOf({ mode: 'home' }).sentence).toBe(
      'home: never more than 900 in all regions; a lone region has 840 at once; ' +
        'decisions outside the home of a key take 90 ms more',
    )
  })
})

test('weights that are not whole numbers are refused', () => {
  const wrong = [
    { name: 'eu', parts: 0.5 },
    { name: 'us', parts: 1 },
  ]
  expect(() => regionBounds({ mode: 'partition', limit, regions: wrong })).toThrow(
    'regions.eu: got 0.5, allowed: a whole number from 1 to 10000',
  )
})
