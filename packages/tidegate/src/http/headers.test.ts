import { parseList } from 'structured-headers'
import { describe, expect, it } from 'vitest'
import type { Limit } from '../algorithms/limit.ts'
import type { Decision } from '../decision.ts'
import { fixedWindow, slidingLog, slidingWindow, tokenBucket } from '../limits/limits.ts'
import {
  type HeaderDialect,
  rateLimit,
  rateLimitPolicy,
  retryAfterSeconds,
  windowSeconds,
  writeHeaders,
} from './headers.ts'

const NOW = 1_700_000_000_500

const admitted: Decision = {
  allowed: true,
  limit: 20,
  remaining: 5,
  retryAfterMs: 0,
  resetAfterMs: 1_001,
  granted: 1,
  degraded: null,
  source: 'store',
}

const denied: Decision = {
  ...admitted,
  allowed: false,
  remaining: 0,
  retryAfterMs: 1_500,
  granted: 0,
}

const limit = fixedWindow({ limit: 20, per: '2s' })

function applied(decision: Decision, name = 'default') {
  return { name, limit, decision }
}

function written(
  decision: Decision,
  dialect: HeaderDialect = 'both',
  before: Record<string, string | string[]> = {},
): Record<string, unknown> {
  const fields = new Map<string, string | string[]>(Object.entries(before))
  const head = {
    getHeader: (name: string) => fields.get(name),
    setHeader: (name: string, value: string) => fields.set(name, value),
  }
  writeHeaders(head, { decision, applied: [applied(decision)] }, dialect, NOW)
  return Object.fromEntries(fields)
}

describe('the window of a policy', () => {
  it.each<[string, Limit, number | undefined]>([
    ['a fixed window', fixedWindow({ limit: 5, per: '1m' }), 60],
    ['a fixed window of no whole second', fixedWindow({ limit: 5, per: '1500ms' }), undefined],
    ['a fixed window below a second', fixedWindow({ limit: 5, per: '250ms' }), undefined],
    ['a sliding window', slidingWindow({ limit: 5, per: '1h' }), 3_600],
    ['a sliding log', slidingLog({ limit: 5, per: '10s' }), 10],
    ['a calendar day', fixedWindow({ limit: 5, per: 'day' }), 86_400],
    ['a calendar week', fixedWindow({ limit: 5, per: 'week' }), 604_800],
    ['a calendar month', fixedWindow({ limit: 5, per: 'month' }), undefined],
    ['a bucket', tokenBucket({ limit: 5, per: '1m' }), 60],
    ['a bucket with a burst', tokenBucket({ limit: 10, per: '1s', burst: 20 }), 2],
    [
      'a bucket that fills in no whole second',
      tokenBucket({ limit: 3, per: '1s', burst: 4 }),
      undefined,
    ],
    ['a bucket of nothing', tokenBucket({ limit: 0, per: '1s' }), undefined],
  ])('of %s', (_, ofLimit, seconds) => {
    expect(windowSeconds(ofLimit)).toBe(seconds)
  })
})

describe('RateLimit-Policy and RateLimit', () => {
  it('list every limit', () => {
    const both = [applied(admitted, 'burst'), applied(denied, 'per.day:1')]
    expect(rateLimitPolicy(both)).toBe('"burst";q=20;w=2, "per.day:1";q=20;w=2')
    expect(rateLimit(both)).toBe('"burst";r=5;t=2, "per.day:1";r=0;t=2')
  })

  it.each([
    ['the time until all is back, for a limit that admits', admitted, '"default";r=5;t=2'],
    ['the wait, for one that denies', { ...denied, resetAfterMs: 9_000 }, '"default";r=0;t=2'],
    ['nothing, where no wait admits', { ...denied, retryAfterMs: Infinity }, '"default";r=0'],
    ['nothing, where nothing comes back', { ...admitted, resetAfterMs: Infinity }, '"default";r=5'],
    ['0, where nothing is used', { ...admitted, resetAfterMs: 0 }, '"default";r=5;t=0'],
  ])('tell %s', (_, decision, text) => {
    expect(rateLimit([applied(decision)])).toBe(text)
  })

  it('stay within the integers of structured fields', () => {
    const most = Number.MAX_SAFE_INTEGER
    const huge = [applied({ ...admitted, limit: most, remaining: most, resetAfterMs: most })]
    for (const text of [rateLimitPolicy(huge), rateLimit(huge)]) {
      expect(() => parseList(text)).not.toThrow()
    }
  })
})

describe('Retry-After', () => {
  it.each([
    [1, 1],
    [999, 1],
    [1_000, 1],
    [1_001, 2],
    [0, 1],
    [Infinity, undefined],
  ])('for %d ms is %s seconds', (retryAfterMs, seconds) => {
    expect(retryAfterSeconds({ ...denied, retryAfterMs })).toBe(seconds)
  })
})

describe('the header fields', () => {
  const older = {
    'x-ratelimit-limit': '20',
    'x-ratelimit-remaining': '5',
    'x-ratelimit-reset': '1700000002',
  }
  const ietf = { 'ratelimit-policy': '"default";q=20;w=2', ratelimit: '"default";r=5;t=2' }

  it.each<[HeaderDialect, object]>([
    ['ietf', ietf],
    ['x-ratelimit', older],
    ['both', { ...ietf, ...older }],
    ['none', {}],
  ])('of the dialect %s', (dialect, fields) => {
    expect(written(admitted, dialect)).toEqual(fields)
  })

  it('of a denial say when to come back, in every dialect', () => {
    expect(written(denied, 'none')).toEqual({ 'retry-after': '2', 'cache-control': 'no-store' })
  })

  it('of a denial for good do not', () => {
    const forGood = { ...denied, retryAfterMs: Infinity }
    expect(written(forGood, 'none')).toEqual({ 'cache-control': 'no-store' })
  })

  it('tell no reset that never comes', () => {
    const fields = written({ ...admitted, resetAfterMs: Infinity }, 'x-ratelimit')
    expect(fields).not.toHaveProperty('x-ratelimit-reset')
  })

  it('say that the limiter is degraded', () => {
    const degraded = { reason: 'timeout', mode: 'open' } as const
    expect(written({ ...admitted, degraded })).toMatchObject({
      'x-ratelimit-status': 'degraded',
      'x-ratelimit-warning': 'rate-limiter-unavailable',
    })
    expect(written({ ...admitted, degraded }, 'none')).toEqual({})
  })

  it('are added to the lists of a guard before', () => {
    const before = { 'ratelimit-policy': '"a";q=1', ratelimit: ['"a";r=1', '"b";r=1'] }
    expect(written(admitted, 'ietf', before)).toEqual({
      'ratelimit-policy': '"a";q=1, "default";q=20;w=2',
      ratelimit: '"a";r=1,"b";r=1, "default";r=5;t=2',
    })
  })

  it.each([
    ['4', '4'],
    ['5', '5'],
    ['6', '5'],
  ])('beside %s left by a guard before show %s', (before, after) => {
    const fields = written(admitted, 'x-ratelimit', {
      'x-ratelimit-limit': '7',
      'x-ratelimit-remaining': before,
    })
    expect(fields).toMatchObject({
      'x-ratelimit-limit': before === '4' ? '7' : '20',
      'x-ratelimit-remaining': after,
    })
  })
})

describe('many limits', () => {
  it('lists the 16 that denied or have the smallest share left, in their order', () => {
    const many = Array.from({ length: 100 }, (_, at) => {
      const remaining = at % 7 === 0 ? 1 : 15
      return applied(at === 99 ? denied : { ...admitted, remaining }, `l${at}`)
    })
    const fields = new Map<string, string>()
    const head = {
      getHeader: (name: string) => fields.get(name),
      setHeader: (name: string, value: string) => fields.set(name, value),
    }
    writeHeaders(head, { decision: denied, applied: many }, 'ietf', NOW)
    const expected = [...Array.from({ length: 15 }, (_, at) => `l${at * 7}`), 'l99']
    for (const name of ['ratelimit', 'ratelimit-policy']) {
      expect(parseList(fields.get(name) ?? '').map(([item]) => item)).toEqual(expected)
    }
  })
})
