/** The part of the middleware contract about what users configure: keys, costs, refunds, errors. */

import { describe, expect, it } from 'vitest'
import { memoryStore } from '../../stores/memory/memory-store.ts'
import {
  type ContractOptions,
  contractClock,
  headerOf,
  type OpenServer,
  perMinute,
} from './server-contract.ts'

export function describeOptions(open: OpenServer): void {
  describe('options', () => {
    itNamesLimits(open)
    itFindsKeys(open)
    itFindsCosts(open)
    itGivesBack(open)
    itReportsErrors(open)
  })
}

const ann = { 'x-user': 'ann' }
const bob = { 'x-user': 'bob' }

function itNamesLimits(open: OpenServer): void {
  it('keeps limits apart that have no name and share a store', async () => {
    const clock = contractClock()
    const shared = { store: memoryStore({ clock }), clock }
    const client = await open([
      { limit: perMinute(100), ...shared },
      { limit: perMinute(5), ...shared },
    ])
    expect(await client.statuses(6)).toEqual([200, 200, 200, 200, 200, 429])
    const policy = (await client.get()).headers.get('ratelimit-policy')
    expect(policy).toContain('"100-per-1m";q=100;w=60')
    expect(policy).toContain('"5-per-1m";q=5;w=60')
  })

  it('names a limit default that has a store of its own', async () => {
    const { headers } = await (await open({ limit: perMinute(5) })).get()
    expect(headers.get('ratelimit-policy')).toBe('"default";q=5;w=60')
  })
}

function itFindsKeys(open: OpenServer): void {
  const keys: ReadonlyArray<[string, NonNullable<ContractOptions['key']>]> = [
    ['a function', (request) => headerOf(request, 'x-user')],
    ['an asynchronous function', async (request) => headerOf(request, 'x-user')],
  ]

  it.each(keys)('counts by a key that is %s', async (_, key) => {
    const client = await open({ limit: perMinute(1), key, clock: contractClock() })
    expect(await client.statuses(2, ann)).toEqual([200, 429])
    expect(await client.statuses(2, bob)).toEqual([200, 429])
  })

  it.each([undefined, null, ''])('counts by IP where the key is %j', async (nobody) => {
    const key = (request: Parameters<typeof headerOf>[0]) => headerOf(request, 'x-user') ?? nobody
    const client = await open({ limit: perMinute(1), key, trustProxy: 1, clock: contractClock() })
    expect(await client.statuses(2, { 'x-forwarded-for': '192.0.2.1' })).toEqual([200, 429])
    expect(await client.statuses(2, { 'x-forwarded-for': '192.0.2.2' })).toEqual([200, 429])
    expect(await client.statuses(1, ann)).toEqual([200])
  })

  it("tells the key function the client's IP", async () => {
    const client = await open({
      limit: perMinute(1),
      key: (request, clientIp) => `${headerOf(request, 'x-user')} ${clientIp()}`,
      trustProxy: 1,
      clock: contractClock(),
    })
    expect(await client.statuses(2, { ...ann, 'x-forwarded-for': '192.0.2.1' })).toEqual([200, 429])
    expect(await client.statuses(1, { ...ann, 'x-forwarded-for': '192.0.2.2' })).toEqual([200])
    expect(await client.statuses(1, { ...bob, 'x-forwarded-for': '192.0.2.1' })).toEqual([200])
  })

  it('counts by a key that is too long to keep', async () => {
    const client = await open({
      limit: perMinute(1),
      key: (request) => headerOf(request, 'x-user'),
      clock: contractClock(),
    })
    expect(await client.statuses(2, { 'x-user': 'a'.repeat(8_000) })).toEqual([200, 429])
    expect(await client.statuses(1, { 'x-user': 'a'.repeat(8_001) })).toEqual([200])
  })

  it('counts each limit by its own key, and by IP where that is missing', async () => {
    const client = await open({
      limits: { ip: perMinute(4), user: perMinute(2) },
      key: (request) => ({ user: headerOf(request, 'x-user') }),
      clock: contractClock(),
    })
    expect(await client.statuses(3, ann)).toEqual([200, 200, 429])
    expect(await client.statuses(3, bob)).toEqual([200, 200, 429])
    const denied = await client.get('/', { 'x-user': 'cid' })
    expect(await denied.json()).toMatchObject({ 'violated-policies': ['ip'] })
  })

  it('takes the limit from the request', async () => {
    const client = await open({
      limit: (_key, request) => perMinute(headerOf(request, 'x-plan') === 'pro' ? 3 : 1),
      key: (request) => headerOf(request, 'x-user'),
      clock: contractClock(),
    })
    expect(await client.statuses(2, { ...ann, 'x-plan': 'free' })).toEqual([200, 429])
    expect(await client.statuses(4, { ...bob, 'x-plan': 'pro' })).toEqual([200, 200, 200, 429])
  })
}

function itFindsCosts(open: OpenServer): void {
  const costs: ReadonlyArray<[string, NonNullable<ContractOptions['cost']>]> = [
    ['a number', 2],
    ['a function', (request) => Number(headerOf(request, 'x-cost'))],
    ['an asynchronous function', async (request) => Number(headerOf(request, 'x-cost'))],
  ]

  it.each(costs)('charges a cost that is %s', async (_, cost) => {
    const client = await open({ limit: perMinute(4), cost, clock: contractClock() })
    expect(await client.statuses(3, { 'x-cost': '2' })).toEqual([200, 200, 429])
  })

  const skips: ReadonlyArray<[string, NonNullable<ContractOptions['skip']>]> = [
    ['a function', (request) => headerOf(request, 'x-user') === 'ann'],
    ['an asynchronous function', async (request) => headerOf(request, 'x-user') === 'ann'],
  ]

  it.each(skips)('neither counts nor marks what is skipped by %s', async (_, skip) => {
    const client = await open({ limit: perMinute(1), skip, clock: contractClock() })
    expect(await client.statuses(3, ann)).toEqual([200, 200, 200])
    expect((await client.get('/', ann)).headers.has('ratelimit')).toBe(false)
    expect(await client.statuses(2, bob)).toEqual([200, 429])
  })
}

function itGivesBack(open: OpenServer): void {
  const routes = { '/bad': () => 400 }

  it('gives back what failed requests cost, and nothing for denied ones', async () => {
    const options = { limit: perMinute(2), skipFailedRequests: true, clock: contractClock() }
    const client = await open(options, routes)
    for (let times = 0; times < 4; times++) expect((await client.get('/bad')).status).toBe(400)
    expect(await client.statuses(4)).toEqual([200, 200, 429, 429])
  })

  it('gives back what successful requests cost', async () => {
    const options = { limit: perMinute(2), skipSuccessfulRequests: true, clock: contractClock() }
    const client = await open(options, routes)
    expect(await client.statuses(4)).toEqual([200, 200, 200, 200])
    const failed = [await client.get('/bad'), await client.get('/bad'), await client.get('/bad')]
    expect(failed.map(({ status }) => status)).toEqual([400, 400, 429])
  })

  it('gives nothing back for a response that was aborted', async () => {
    const reached = Promise.withResolvers<void>()
    const answered = Promise.withResolvers<void>()
    const client = await open(
      { limit: perMinute(3), skipSuccessfulRequests: true, clock: contractClock() },
      {
        async '/slow'(response) {
          const closed = new Promise((resolve) => response.once('close', resolve))
          reached.resolve()
          await closed
          setImmediate(answered.resolve)
          return 200
        },
      },
    )
    const request = new AbortController()
    const aborted = fetch(`${client.url}/slow`, { signal: request.signal }).catch(() => undefined)
    await reached.promise
    request.abort()
    await aborted
    await answered.promise
    await client.statuses(1)
    expect((await client.get()).headers.get('x-ratelimit-remaining')).toBe('1')
  })
}

function itReportsErrors(open: OpenServer): void {
  const fail = (): never => {
    throw new Error('out of luck')
  }
  const broken: ReadonlyArray<[string, ContractOptions]> = [
    ['key', { limit: perMinute(1), key: fail }],
    ['asynchronous key', { limit: perMinute(1), key: async () => fail() }],
    ['cost', { limit: perMinute(1), cost: fail }],
    ['skip', { limit: perMinute(1), skip: async () => fail() }],
    ['limit', { limit: fail }],
    ['handler', { limit: perMinute(0), respond: fail }],
    ['asynchronous handler', { limit: perMinute(0), respond: async () => fail() }],
  ]

  it.each(broken)(
    "hands an error of the %s to the framework's error handling",
    async (_, options) => {
      const client = await open(options)
      const response = await client.get()
      expect([response.status, await response.text()]).toEqual([500, 'out of luck'])
    },
  )

  const misused: ReadonlyArray<[string, ContractOptions, RegExp]> = [
    ['a cost below 0', { limit: perMinute(1), cost: () => -1 }, /^cost: got -1, allowed:/],
    [
      'a concurrency limit',
      { limit: () => ({ algorithm: 'concurrency', limit: 1, ttlMs: 1000 }) },
      /is a concurrency limit; use acquire and release/,
    ],
    [
      'a key for a limit that is not there',
      { limits: { user: perMinute(1) }, key: () => ({ usr: 'ann' }) },
      /keys\.usr/,
    ],
  ]

  it.each(misused)('refuses %s loudly', async (_, options, message) => {
    const response = await (await open(options)).get()
    expect([response.status, await response.text()]).toEqual([500, expect.stringMatching(message)])
  })
}
