import { describe, expect, it } from 'vitest'
import { TidegateError } from '../errors.ts'
import { concurrency, fixedWindow, slidingLog, slidingWindow, tokenBucket } from './limits.ts'

describe('limits', () => {
  it('read periods as people write them', () => {
    const perMs = (per: Parameters<typeof slidingLog>[0]['per']) => {
      const limit = slidingLog({ limit: 1, per })
      return limit.algorithm === 'slidingLog' ? limit.perMs : undefined
    }
    expect(perMs('250ms')).toBe(250)
    expect(perMs('1s')).toBe(1_000)
    expect(perMs('5m')).toBe(300_000)
    expect(perMs('1h')).toBe(3_600_000)
    expect(perMs('1d')).toBe(86_400_000)
    expect(perMs('1234ms')).toBe(1_234)
  })

  it('are frozen values', () => {
    expect(Object.isFrozen(tokenBucket({ limit: 10, per: '1s' }))).toBe(true)
    const daily = fixedWindow({ limit: 10, per: 'day', timeZone: 'Europe/Berlin' })
    const per = { unit: 'day', timeZone: 'Europe/Berlin' }
    expect(daily).toEqual({ algorithm: 'fixedWindow', limit: 10, per })
  })

  it('count in days of UTC where no time zone is given', () => {
    expect(fixedWindow({ limit: 1, per: 'week' })).toMatchObject({ per: { timeZone: 'UTC' } })
  })

  it('take large round numbers', () => {
    expect(tokenBucket({ limit: 1_000_000_000, per: '1d' })).toMatchObject({ limit: 1e9 })
    expect(slidingWindow({ limit: 100_000_000, per: '1d' })).toMatchObject({ limit: 1e8 })
  })

  const refused: Array<[string, () => unknown, RegExp]> = [
    ['no options', () => tokenBucket(undefined as never), /tokenBucket: got undefined/],
    ['no period', () => tokenBucket({ limit: 1 } as never), /tokenBucket\.per: got undefined/],
    [
      'an unknown period',
      () => tokenBucket({ limit: 1, per: '1x' as '1s' }),
      /\.per: got "1x", allowed: a whole/,
    ],
    ['a period of 0', () => slidingLog({ limit: 1, per: '0s' }), /slidingLog\.per: got "0s"/],
    ['half a millisecond', () => slidingLog({ limit: 1, per: '0.5ms' }), /\.per: got "0\.5ms"/],
    [
      'a number without a unit',
      () => tokenBucket({ limit: 1, per: 60 as never }),
      /^tokenBucket\.per: got 60, allowed: .* such as "60s" or "60ms"$/,
    ],
    [
      'a number without a unit for slots',
      () => concurrency({ limit: 1, ttl: 5_000 as never }),
      /^concurrency\.ttl: got 5000, allowed: .* such as "5000s" or "5000ms"$/,
    ],
    ['two years', () => slidingLog({ limit: 1, per: '730d' }), /slidingLog\.per: got "730d"/],
    [
      'a calendar in a bucket',
      () => tokenBucket({ limit: 1, per: 'day' as '1d' }),
      /tokenBucket\.per: got "day"/,
    ],
    [
      'a negative limit',
      () => fixedWindow({ limit: -1, per: '1s' }),
      /fixedWindow\.limit: got -1, allowed: a whole number from 0/,
    ],
    ['half a unit', () => fixedWindow({ limit: 0.5, per: '1s' }), /fixedWindow\.limit: got 0\.5/],
    ['NaN', () => slidingWindow({ limit: Number.NaN, per: '1s' }), /slidingWindow\.limit: got NaN/],
    [
      'a text',
      () => slidingWindow({ limit: '5' as never, per: '1s' }),
      /slidingWindow\.limit: got "5"/,
    ],
    [
      'a burst of 0',
      () => tokenBucket({ limit: 1, per: '1s', burst: 0 }),
      /tokenBucket\.burst: got 0/,
    ],
    [
      'a misspelt option',
      () => tokenBucket({ limit: 1, per: '1s', brust: 2 } as never),
      /tokenBucket\.brust: got 2, allowed: no option but limit, per, burst/,
    ],
    [
      'an unknown zone',
      () => fixedWindow({ limit: 1, per: 'day', timeZone: 'Mars/Base' }),
      /fixedWindow\.timeZone: got "Mars\/Base"/,
    ],
    [
      'a zone without a calendar',
      () => fixedWindow({ limit: 1, per: '1d', timeZone: 'UTC' }),
      /only with per: 'day'/,
    ],
    [
      'too many slots',
      () => concurrency({ limit: 10_001, ttl: '1s' }),
      /concurrency\.limit: got 10001/,
    ],
    ['slots for ever', () => concurrency({ limit: 1 } as never), /concurrency\.ttl: got undefined/],
    [
      'what cannot be counted exactly',
      () => tokenBucket({ limit: 999_999_937, per: '1d' }),
      /counted exactly/,
    ],
    [
      'the same in a window',
      () => slidingWindow({ limit: 200_000_000, per: '1d' }),
      /at most 104249991 for this period/,
    ],
  ]

  it.each(refused)('refuse %s', (_, make, message) => {
    expect(make).toThrow(message)
    expect(make).toThrow(TidegateError)
  })

  it('refuse mistakes beside a function at once, and its result when it comes', async () => {
    expect(() => tokenBucket({ limit: () => 5, per: '1x' as '1s' })).toThrow(/tokenBucket\.per/)
    const rule = tokenBucket({ limit: () => -5, per: '1s' })
    expect(() => rule('key', undefined)).toThrow(/tokenBucket\.limit: got -5/)
    const later = tokenBucket({ limit: async () => Number.NaN, per: '1s' })
    await expect(later('key', undefined)).rejects.toThrow(/tokenBucket\.limit: got NaN/)
  })
})
