import { memoryStore, type Store } from 'tidegate'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startCluster } from '../../../../test/support/servers/cluster.ts'
import { type RedisServer, startRedis } from '../../../../test/support/servers/redis.ts'
import { until } from '../../../../test/support/servers/until.ts'
import { createStore } from '../stores/create-store.ts'
import { createEnforcer } from './enforcer.ts'
import { type FactsOptions, factsOf, policyOf } from './enforcer-contract.ts'

const stops: (() => unknown)[] = []
let server: RedisServer

/** A deadline that a machine keeps that stalls: these tests are about decisions, not about time. */
const DEADLINE_MS = 30_000

/** A failover is not the subject either. */
const NODE_TIMEOUT_MS = 15_000

beforeAll(async () => {
  server = await startRedis()
  stops.push(() => server.stop())
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

async function connect(options: { readonly deadlineMs?: number; readonly address?: string } = {}) {
  const { deadlineMs = DEADLINE_MS, address = `${server.host}:${server.port}` } = options
  const opened = createStore({ mode: 'standalone', addresses: [address] }, { deadlineMs })
  stops.push(() => opened.close())
  await until('the store is connected', async () => opened.isConnected())
  return opened.store
}

function enforcerOf(text: string, store: Store) {
  const enforcer = createEnforcer(policyOf(text), { store })
  return async (facts: FactsOptions = {}) => enforcer.evaluate(factsOf(facts))
}

const identity = { apiKey: 'key_1', organisation: 'org_1' }

describe('on Redis', () => {
  it('several limits are charged all or none, by several processes', async () => {
    const text = `
limits:
  - { name: all-global, key: everyone, limit: 100, per: 1h, accuracy: exact }
  - { name: all-org, key: organisation, otherwise: skip, limit: 60, per: 1h, accuracy: exact }
  - name: all-key
    key: apiKey
    otherwise: skip
    limit: 40
    per: 1h
    accuracy: exact
    within: all-org`
    const stores = [await connect(), await connect()]
    const judges = stores.map((store) => enforcerOf(text, store))
    const run = (count: number, facts: FactsOptions) =>
      Promise.all(
        Array.from({ length: count }, async (_, at) => {
          const judge = judges[at % judges.length] ?? judges[0]
          return judge?.(facts)
        }),
      )
    const admitted = async (count: number, facts: FactsOptions) =>
      (await run(count, facts)).filter((verdict) => verdict?.outcome === 'admitted').length
    expect(await admitted(100, { identity })).toBe(40)
    expect(await admitted(100, { identity: { ...identity, apiKey: 'key_2' } })).toBe(20)
    const [refused] = await run(1, { identity })
    expect(refused).toMatchObject({ outcome: 'denied' })
    expect(await admitted(100, { identity: { organisation: 'org_2', apiKey: 'key_3' } })).toBe(40)
    const [global] = await run(1, {})
    expect(global).toMatchObject({ outcome: 'denied', refusedBy: 'all-global' })
  })

  it('says what the memory store says', async () => {
    const text = `
tiers: { names: [free, premium], default: free }
limits:
  - { name: same-a, key: ip, limit: 5, per: 1h, cost: { header: x-cost, max: 4 } }
  - { name: same-b, key: everyone, algorithm: slidingWindow, limit: 9, per: 1h }
  - name: same-c
    key: apiKey
    otherwise: skip
    algorithm: fixedWindow
    limit: 3
    per: 1d
    tiers: { premium: { limit: 4 } }
overrides: [{ limit: same-c, key: vip, set: { limit: 6 } }]`
    const judges = [enforcerOf(text, await connect()), enforcerOf(text, memoryStore())]
    const requests: FactsOptions[] = [
      { identity },
      { headers: { 'x-cost': '3' } },
      { headers: { 'x-cost': '4' } },
      { headers: { 'x-cost': '1' } },
      { ip: '192.0.2.2', identity: { apiKey: 'vip' } },
      { ip: '192.0.2.3', identity: { apiKey: 'vip', tier: 'premium' } },
      { ip: '192.0.2.3', identity },
      { ip: '192.0.2.4', identity: { ...identity, tier: 'premium' } },
      { ip: '192.0.2.5', identity: { ...identity, tier: 'premium' } },
      { ip: '192.0.2.5', identity },
      { ip: '192.0.2.6' },
      { ip: '192.0.2.7' },
    ]
    for (const [at, request] of requests.entries()) {
      const answers = await Promise.all(judges.map((judge) => judge(request)))
      const [redis, memory] = answers.map(({ outcome, refusedBy, evaluation }) => ({
        outcome,
        refusedBy,
        left: evaluation?.applied.map(({ name, decision }) => [name, decision.remaining]),
      }))
      expect(redis, `request ${at}`).toEqual(memory)
    }
  })

  it('a cheaper request is not taken for the one that was denied', async () => {
    const judge = enforcerOf(
      `
limits:
  - { name: cost-all, key: everyone, limit: 100, per: 1h }
  - { name: cost-ip, key: ip, limit: 5, per: 1h, cost: { header: x-cost, max: 9 } }`,
      await connect(),
    )
    const cost = async (units: number) =>
      (await judge({ headers: { 'x-cost': `${units}` } })).outcome
    expect([await cost(3), await cost(4), await cost(1), await cost(1)]).toEqual([
      'admitted',
      'denied',
      'admitted',
      'admitted',
    ])
  })

  it('slots are held by all processes together, and given back', async () => {
    const text = `
limits: [{ name: slots, key: apiKey, otherwise: skip, algorithm: concurrency, limit: 3, ttl: 30s }]`
    const judges = [enforcerOf(text, await connect()), enforcerOf(text, await connect())]
    const verdicts = await Promise.all(
      Array.from({ length: 8 }, (_, at) => judges[at % 2]?.({ identity })),
    )
    const held = verdicts.filter((verdict) => verdict?.outcome === 'admitted')
    expect(held).toHaveLength(3)
    for (const verdict of held) verdict?.release?.()
    await until('the slots are free again', async () => {
      const verdict = await judges[0]?.({ identity })
      verdict?.release?.()
      return verdict?.evaluation?.decision.remaining === 2
    })
  })

  it('a limit in shadow mode is asked without keeping the request waiting', async () => {
    const text = `
limits:
  - { name: shadow-real, key: everyone, limit: 9, per: 1h }
  - { name: shadow-next, key: everyone, limit: 1, per: 1h, mode: shadow }`
    const judge = enforcerOf(text, await connect())
    for (const isAllowed of [true, false]) {
      const verdict = await judge()
      expect(verdict.outcome).toBe('admitted')
      await verdict.shadowing
      expect(verdict.shadowed).toMatchObject([
        { name: 'shadow-next', decision: { allowed: isAllowed } },
      ])
    }
  })

  it('another process raises a tier, and what was used stays used', async () => {
    const text = (limit: number) => `
limits: [{ name: raised, key: apiKey, otherwise: skip, limit: ${limit}, per: 1h }]`
    const before = enforcerOf(text(1), await connect())
    await before({ identity })
    expect((await before({ identity })).outcome).toBe('denied')
    const after = enforcerOf(text(3), await connect())
    expect((await after({ identity })).evaluation?.decision).toMatchObject({
      limit: 3,
      remaining: 1,
    })
  })
})

describe('while Redis is away', () => {
  it('each limit does what it declares', async () => {
    const lost = await startRedis()
    stops.push(() => lost.stop())
    const store = await connect({ deadlineMs: 15, address: `${lost.host}:${lost.port}` })
    lost.kill('SIGKILL')
    const limit = (name: string, mode: string) =>
      `limits: [{ name: ${name}, key: everyone, limit: 2, per: 1h, onStoreError: ${mode} }]`
    expect(await enforcerOf(limit('o', 'open'), store)()).toMatchObject({
      outcome: 'admitted',
      evaluation: { decision: { degraded: { mode: 'open' } } },
    })
    expect(await enforcerOf(limit('c', 'closed'), store)()).toMatchObject({
      outcome: 'unavailable',
      refusedBy: 'c',
      evaluation: { decision: { allowed: false, degraded: { mode: 'closed' } } },
    })
    const local = enforcerOf(limit('l', 'local'), store)
    const outcomes = [await local(), await local(), await local()].map(({ outcome }) => outcome)
    expect(outcomes).toEqual(['admitted', 'admitted', 'denied'])
  })
})

describe('on Redis Cluster', () => {
  it('a hierarchy is exact, wherever its keys lie', async () => {
    const cluster = await startCluster({ nodeTimeoutMs: NODE_TIMEOUT_MS })
    stops.push(() => cluster.stop())
    const addresses = cluster.nodes.map(({ host, port }) => `${host}:${port}`)
    const opened = createStore({ mode: 'cluster', addresses }, { deadlineMs: DEADLINE_MS })
    stops.push(() => opened.close())
    await until('the store is connected', async () => opened.isConnected())
    // A process that stalls beyond the end of a lease loses its units, so there are none.
    const exact = 'accuracy: exact'
    const judge = enforcerOf(
      `
limits:
  - { name: global, key: everyone, limit: 30, per: 1h, ${exact} }
  - { name: org, key: organisation, otherwise: skip, limit: 9, per: 1h, ${exact} }
  - { name: key, key: apiKey, otherwise: skip, limit: 6, per: 1h, within: org, ${exact} }
  - name: endpoint
    match: { path: /pay }
    key: [apiKey, route]
    otherwise: skip
    limit: 4
    per: 1h
    within: key
    ${exact}`,
      opened.store,
    )
    const admitted = async (count: number, facts: FactsOptions) => {
      let sum = 0
      for (let at = 0; at < count; at++) if ((await judge(facts)).outcome === 'admitted') sum++
      return sum
    }
    expect(await admitted(8, { identity, path: '/pay' })).toBe(4)
    expect(await admitted(8, { identity })).toBe(2)
    expect(await admitted(8, { identity: { ...identity, apiKey: 'key_2' } })).toBe(3)
    let all = 9
    for (let org = 2; org < 7; org++) {
      all += await admitted(9, { identity: { organisation: `org_${org}`, apiKey: 'k' } })
    }
    expect(all).toBe(30)
  })
})
