import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { manualClock, memoryStore } from 'tidegate'
import { afterEach, describe, expect, it, test } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import type { TiersSection } from '../../policy/schema/tiers-section.ts'
import { createEnforcer } from '../enforcer.ts'
import { factsOf, policyOf } from '../enforcer-contract.ts'
import type { PolicyEvent } from '../limits-observer.ts'
import { createTiers, type Tiers } from './tiers.ts'

const stops: (() => unknown)[] = []

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

const section = (lookup: TiersSection['lookup']): TiersSection => ({
  names: ['free', 'premium'],
  default: 'free',
  lookup,
  cache: { entries: 100, ttl: 300_000, negativeTtl: 30_000 },
})

/** A real service, which answers by what a test says. */
async function startService(answer: RequestListener) {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url ?? '')
    answer(request, response)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const stop = () =>
    new Promise((done) => {
      server.close(done)
      server.closeAllConnections()
    })
  stops.push(stop)
  const { port } = server.address() as AddressInfo
  return { asked, stop, url: `http://127.0.0.1:${port}/tiers/{key}` }
}

function tiersAt(url: string, options: { timeout?: number; after?: Tiers; entries?: number } = {}) {
  const clock = manualClock()
  const events: PolicyEvent[] = []
  const { timeout = 5_000, after, entries = 100 } = options
  const own = section({ url, by: 'organisation', timeout })
  const tiers = createTiers(
    { ...own, cache: { ...own.cache, entries } },
    { clock, observer: (event) => void events.push(event), after },
  )
  stops.push(() => tiers.close())
  return { tiers, clock, events, tierOf: (organisation: string) => tiers.tierOf({ organisation }) }
}

const premium: RequestListener = (_, response) => response.end('{"tier":"premium"}')

describe('a tier', () => {
  test.each([
    [{ tier: 'premium' }, 'premium'],
    [{ tier: 'gold' }, 'free'],
    [{}, 'free'],
  ])('of %j is %s without a look-up', (identity, expected) => {
    expect(createTiers(section(undefined)).tierOf(identity)).toBe(expected)
  })

  test.each([
    [{ claims: { plan: 'premium' } }, 'premium'],
    [{ claims: { plan: ['premium'] } }, 'free'],
    [{ claims: { plan: 'gold' } }, 'free'],
    [{}, 'free'],
  ])('of %j is %s by a claim', (identity, expected) => {
    expect(createTiers(section({ claim: 'plan' })).tierOf(identity)).toBe(expected)
  })

  test.each([
    [{ user: 'ada' }, 'premium'],
    [{ user: 'eve' }, 'free'],
    [{ apiKey: 'ada' }, 'free'],
  ])('of %j is %s by a table', (identity, expected) => {
    const table = new Map([['ada', 'premium']])
    const tiers = createTiers(section({ file: 'tiers.yaml', by: 'user' }), { table })
    expect(tiers.tierOf(identity)).toBe(expected)
  })
})

describe('a tier that is looked up', () => {
  it('is asked for once and then remembered', async () => {
    const { url, asked } = await startService(premium)
    const { tierOf, clock } = tiersAt(url)
    const answers = await Promise.all([tierOf('org_1'), tierOf('org_1'), tierOf('org_1')])
    expect(answers).toEqual(['premium', 'premium', 'premium'])
    expect(tierOf('org_1')).toBe('premium')
    clock.advance(299_999)
    expect(tierOf('org_1')).toBe('premium')
    expect(asked).toEqual(['/tiers/org_1'])
  })

  it('that is old holds until there is a new one', async () => {
    let tier = 'premium'
    const { url, asked } = await startService((_, response) =>
      response.end(JSON.stringify({ tier })),
    )
    const { tierOf, clock } = tiersAt(url)
    await tierOf('org_1')
    tier = 'free'
    clock.advance(300_000)
    expect(tierOf('org_1')).toBe('premium')
    await until('the new tier is known', async () => tierOf('org_1') === 'free')
    expect(asked).toHaveLength(2)
  })

  it('stays as it was while the service fails, and is asked for again later', async () => {
    let status = 200
    const { url, asked } = await startService((_, response) => {
      response.statusCode = status
      response.end('{"tier":"premium"}')
    })
    const { tierOf, clock, events } = tiersAt(url)
    await tierOf('org_1')
    status = 500
    clock.advance(300_000)
    expect(tierOf('org_1')).toBe('premium')
    await until('the failure was told', async () => events.length === 1)
    expect(events).toEqual([{ type: 'tier-unknown', reason: 'failed', detail: 'status 500' }])
    expect(tierOf('org_1')).toBe('premium')
    expect(asked).toHaveLength(2)
    clock.advance(30_000)
    status = 200
    expect(tierOf('org_1')).toBe('premium')
    await until('it was asked again', async () => asked.length === 3)
  })

  test.each<[string, RequestListener]>([
    ['404', (_, response) => response.writeHead(404).end()],
    ['500', (_, response) => response.writeHead(500).end('{"tier":"premium"}')],
    ['no JSON', (_, response) => response.end('premium')],
    ['another shape', (_, response) => response.end('{"plan":"premium"}')],
    ['no text', (_, response) => response.end('{"tier":1}')],
    ['an unknown tier', (_, response) => response.end('{"tier":"gold"}')],
    ['a long answer', (_, response) => response.end(`{"tier":"premium"}${' '.repeat(20_000)}`)],
    ['a way elsewhere', (_, response) => response.writeHead(302, { location: '/x' }).end()],
    ['a broken connection', (request) => request.socket.destroy()],
    ['silence', () => undefined],
  ])('is the default after %s, and not asked for again at once', async (_, answer) => {
    const { url, asked } = await startService(answer)
    const { tierOf, clock } = tiersAt(url, { timeout: 200 })
    expect(await tierOf('org_1')).toBe('free')
    const count = asked.length
    clock.advance(29_999)
    expect(tierOf('org_1')).toBe('free')
    expect(asked).toHaveLength(count)
    clock.advance(1)
    expect(await tierOf('org_1')).toBe('free')
    expect(asked.length).toBeGreaterThan(count)
  })

  it('is the default while the service is not there', async () => {
    const { url, stop } = await startService(premium)
    await stop()
    const { tierOf, events } = tiersAt(url)
    expect(await tierOf('org_1')).toBe('free')
    expect(events).toMatchObject([{ type: 'tier-unknown', reason: 'failed' }])
  })

  test.each([
    ['a/b', '/tiers/a%2Fb'],
    ['a?b#c', '/tiers/a%3Fb%23c'],
    ['$&', '/tiers/%24%26'],
    ['é', '/tiers/%C3%A9'],
  ])('of %j is asked for at %s', async (id, path) => {
    const { url, asked } = await startService(premium)
    expect(await tiersAt(url).tierOf(id)).toBe('premium')
    expect(asked).toEqual([path])
  })

  test.each(['.', '..', '', '\ud800', 'x'.repeat(257)])(
    'of an id that leads elsewhere is not asked for: %j',
    async (id) => {
      const { url, asked } = await startService(premium)
      expect(tiersAt(url).tierOf(id)).toBe('free')
      expect(asked).toEqual([])
    },
  )

  it('survives a flood of invented ids, which ask for few at a time', async () => {
    let isOpen = false
    let mostUnderWay = 0
    let underWay = 0
    const waiting: (() => void)[] = []
    const { url } = await startService((request, response) => {
      if (request.url === '/tiers/org_1') return void response.end('{"tier":"premium"}')
      mostUnderWay = Math.max(mostUnderWay, ++underWay)
      const end = () => {
        underWay--
        response.writeHead(404).end()
      }
      if (isOpen) end()
      else waiting.push(end)
    })
    const { tierOf, events } = tiersAt(url, { entries: 10 })
    expect(await tierOf('org_1')).toBe('premium')
    const flood = Array.from({ length: 1_000 }, (_, at) => tierOf(`invented_${at}`))
    expect(flood.filter((tier) => tier === 'free')).toHaveLength(1_000 - 64)
    expect(events.filter(({ type }) => type === 'tier-unknown')).toHaveLength(1_000 - 64)
    await until('all that are allowed were asked', async () => waiting.length === 64)
    isOpen = true
    for (const end of waiting) end()
    expect(await Promise.all(flood)).toEqual(flood.map(() => 'free'))
    expect(mostUnderWay).toBe(64)
    expect(tierOf('org_1')).toBe('premium')
  })

  it('is forgotten when it was not used for the longest', async () => {
    const { url, asked } = await startService(premium)
    const { tierOf } = tiersAt(url, { entries: 2 })
    for (const id of ['a', 'b', 'a', 'c', 'a']) await tierOf(id)
    expect(asked).toEqual(['/tiers/a', '/tiers/b', '/tiers/c'])
    await tierOf('b')
    expect(asked).toHaveLength(4)
  })

  it('is still known to the policy that comes after', async () => {
    const { url, asked } = await startService(premium)
    const before = tiersAt(url)
    await before.tierOf('org_1')
    const { tierOf } = tiersAt(url, { after: before.tiers })
    expect(tierOf('org_1')).toBe('premium')
    expect(asked).toHaveLength(1)
  })

  it('decides which numbers hold, once for requests that wait together', async () => {
    const { url, asked } = await startService(premium)
    const document = policyOf(`
tiers: { names: [free, premium], default: free, lookup: { url: "${url}", by: organisation } }
limits:
  - name: a
    match: { path: /a/* }
    key: [organisation, path]
    otherwise: skip
    limit: 1
    per: 1h
    tiers: { premium: { limit: 5 } }
    cost: [{ match: { path: /a/x }, cost: 3 }]`)
    const enforcer = createEnforcer(document, { store: memoryStore() })
    stops.push(() => enforcer.close())
    const identity = { organisation: 'org_1' }
    const judged = ['/a/x', '/a/y', '/b'].map((path) =>
      enforcer.evaluate(factsOf({ identity, path })),
    )
    const [x, y, none] = await Promise.all(judged)
    expect(x?.evaluation?.decision).toMatchObject({ limit: 5, remaining: 2 })
    expect(y?.evaluation?.decision).toMatchObject({ limit: 5, remaining: 4 })
    expect(none?.evaluation).toBeUndefined()
    expect(asked).toHaveLength(1)
  })
})
