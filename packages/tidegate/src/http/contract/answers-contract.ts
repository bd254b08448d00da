/** The part of the middleware contract about what is answered: status, header fields and body. */

import { describe, expect, it } from 'vitest'
import type { Decision } from '../../decision.ts'
import type { LimiterOptions } from '../../limiter/limiter.ts'
import { chargeOneAsGroup } from '../../stores/charge-one.ts'
import { contractClock, type OpenServer, perMinute, START_MS } from './server-contract.ts'

const RESET_AT = String(START_MS / 1000 + 60)

export function describeAnswers(open: OpenServer): void {
  describe('answers', () => {
    itDenies(open)
    itWritesDialects(open)
    itTellsWhenToComeBack(open)
    itCombinesLimits(open)
    itTellsOfOutages(open)
  })
}

function itDenies(open: OpenServer): void {
  it('admits two requests of two', async () => {
    const client = await open({ limit: perMinute(2), clock: contractClock() })
    const first = await client.get()
    expect([first.status, await first.text()]).toEqual([200, 'ok'])
    expect(fieldsOf(first)).toEqual({
      'ratelimit-policy': '"default";q=2;w=60',
      ratelimit: '"default";r=1;t=60',
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '1',
      'x-ratelimit-reset': RESET_AT,
    })
    expect(fieldsOf(await client.get())).toMatchObject({ ratelimit: '"default";r=0;t=60' })
  })

  it('denies the third request of two', async () => {
    const client = await open({ limit: perMinute(2), name: 'api', clock: contractClock() })
    expect(await client.statuses(2)).toEqual([200, 200])
    const denied = await client.get()
    expect(denied.status).toBe(429)
    expect(denied.headers.get('content-type')).toMatch(/^application\/problem\+json(;|$)/)
    expect(fieldsOf(denied)).toEqual({
      'cache-control': 'no-store',
      'retry-after': '60',
      'ratelimit-policy': '"api";q=2;w=60',
      ratelimit: '"api";r=0;t=60',
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': RESET_AT,
      'x-ratelimit-retry-after': '60',
    })
    expect(await denied.json()).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status: 429,
      detail: 'Too many requests for limit api. Try again in 60 seconds.',
      'violated-policies': ['api'],
      error: 'Rate limit exceeded',
      message: 'Too many requests for limit api. Try again in 60 seconds.',
      retry_after: 60,
    })
  })

  it('leaves the body to a handler, with everything else set', async () => {
    const respond = async (decision: Decision) => `wait ${decision.retryAfterMs} ms`
    const client = await open({ limit: perMinute(1), clock: contractClock(), respond })
    expect(await client.statuses(1)).toEqual([200])
    const denied = await client.get()
    expect([denied.status, await denied.text()]).toEqual([429, 'wait 60000 ms'])
    expect(fieldsOf(denied)).toMatchObject({
      'cache-control': 'no-store',
      'retry-after': '60',
      ratelimit: '"default";r=0;t=60',
      'x-ratelimit-remaining': '0',
    })
  })
}

function itWritesDialects(open: OpenServer): void {
  const ietf = ['ratelimit', 'ratelimit-policy']
  const older = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']
  const dialects = [
    ['ietf', ietf],
    ['x-ratelimit', older],
    ['both', [...ietf, ...older]],
    ['none', []],
  ] as const

  it.each(dialects)('writes the header fields of the dialect %s', async (headers, names) => {
    const client = await open({ limit: perMinute(1), clock: contractClock(), headers })
    expect(Object.keys(fieldsOf(await client.get())).sort()).toEqual([...names].sort())
    const denied = Object.keys(fieldsOf(await client.get())).sort()
    const wait = headers === 'x-ratelimit' || headers === 'both' ? ['x-ratelimit-retry-after'] : []
    expect(denied).toEqual(['cache-control', 'retry-after', ...wait, ...names].sort())
  })
}

function itTellsWhenToComeBack(open: OpenServer): void {
  const limits = [
    perMinute(3),
    { algorithm: 'slidingWindow', limit: 3, perMs: 10_000 },
    { algorithm: 'slidingLog', limit: 3, perMs: 2_500 },
  ] as const

  it.each(limits)('admits who waited as long as Retry-After says: $algorithm', async (limit) => {
    const clock = contractClock()
    const client = await open({ limit, clock })
    expect(await client.statuses(3)).toEqual([200, 200, 200])
    clock.advance(250)
    const denied = await client.get()
    expect(denied.status).toBe(429)
    clock.advance(Number(denied.headers.get('retry-after')) * 1000)
    expect(await client.statuses(1)).toEqual([200])
  })

  it('tells no time where no wait would help', async () => {
    const client = await open({ limit: perMinute(2), cost: 3, clock: contractClock() })
    const denied = await client.get()
    expect(denied.status).toBe(429)
    expect(fieldsOf(denied)).toMatchObject({ ratelimit: '"default";r=2' })
    expect(denied.headers.has('retry-after')).toBe(false)
    expect(await denied.json()).not.toHaveProperty('retry_after')
  })
}

function itCombinesLimits(open: OpenServer): void {
  it('names every limit, and those that said no', async () => {
    const limits = { org: perMinute(10), user: perMinute(1) }
    const client = await open({ limits, clock: contractClock() })
    const policies = '"org";q=10;w=60, "user";q=1;w=60'
    expect(fieldsOf(await client.get())).toMatchObject({
      'ratelimit-policy': policies,
      ratelimit: '"org";r=9;t=60, "user";r=0;t=60',
      'x-ratelimit-limit': '1',
    })
    const denied = await client.get()
    expect(fieldsOf(denied)).toMatchObject({
      'ratelimit-policy': policies,
      ratelimit: '"org";r=9;t=60, "user";r=0;t=60',
    })
    expect(await denied.json()).toMatchObject({ 'violated-policies': ['user'] })
  })

  it('lists the limits of stacked middlewares, and shows the least that is left', async () => {
    const clock = contractClock()
    const wide = { limit: perMinute(5), name: 'wide', clock }
    const narrow = { limit: perMinute(2), name: 'narrow', clock }
    for (const stack of [
      [wide, narrow],
      [narrow, wide],
    ]) {
      const fields = fieldsOf(await (await open(stack)).get())
      expect(fields.ratelimit?.split(', ').sort()).toEqual(['"narrow";r=1;t=60', '"wide";r=4;t=60'])
      expect(fields['ratelimit-policy']?.split(', ')).toHaveLength(2)
      expect([fields['x-ratelimit-limit'], fields['x-ratelimit-remaining']]).toEqual(['2', '1'])
    }
  })
}

function itTellsOfOutages(open: OpenServer): void {
  const degraded = {
    'x-ratelimit-status': 'degraded',
    'x-ratelimit-warning': 'rate-limiter-unavailable',
  }

  it('admits and says so where the store is down and the limit is open', async () => {
    const client = await open({ limit: perMinute(2), store: storeThatIsDown('open') })
    const response = await client.get()
    expect(response.status).toBe(200)
    expect(fieldsOf(response)).toMatchObject(degraded)
  })

  it('answers 503 and not 429 where the store is down and the limit is closed', async () => {
    const client = await open({ limit: perMinute(2), store: storeThatIsDown('closed') })
    const response = await client.get()
    expect(response.status).toBe(503)
    expect(fieldsOf(response)).toMatchObject({ ...degraded, 'retry-after': '1' })
    expect(await response.json()).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      status: 503,
      retry_after: 1,
    })
  })
}

/** A store that answers as one whose server cannot be reached. */
function storeThatIsDown(mode: 'open' | 'closed'): NonNullable<LimiterOptions['store']> {
  const allowed = mode === 'open'
  const decision: Decision = {
    allowed,
    limit: 2,
    remaining: 0,
    retryAfterMs: allowed ? 0 : 500,
    resetAfterMs: 0,
    granted: 0,
    degraded: { reason: 'unreachable', mode },
    source: 'fallback',
  }
  return {
    isRemote: false,
    charge: (group) => group.map(() => decision),
    chargeOne: chargeOneAsGroup,
    adjust: (group) => group.map(() => decision),
    reset: () => undefined,
    close: () => undefined,
  }
}

const watched = /^(ratelimit|x-ratelimit|retry-after|cache-control)/

/** The header fields that a guard may set. */
function fieldsOf(response: Response): Record<string, string> {
  return Object.fromEntries([...response.headers].filter(([name]) => watched.test(name)))
}
