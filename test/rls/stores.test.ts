/**
 * The service on real Redis servers of every kind: the same answers, and exact under concurrency.
 * With a long deadline, because a busy machine is no concern here.
 */

import { Redis } from 'ioredis'
import { createLimiter, fixedWindow } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { StoreSettings } from '../../packages/server/src/stores/create-store.ts'
import { startCluster } from '../servers/cluster.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { startSentinel } from '../servers/sentinel.ts'
import { until } from '../servers/until.ts'
import { request } from './rls-client.ts'
import { startTestRls, untilHealthy } from './rls-server.ts'

const config = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: route
    rate_limit: { unit: day, requests_per_unit: 3 }
  - key: burst
    rate_limit: { unit: hour, requests_per_unit: 100 }
  - key: bucket
    rate_limit: { per: 1h, requests_per_unit: 10, algorithm: token_bucket, burst: 2 }
  - key: log
    rate_limit: { per: 10s, requests_per_unit: 2, algorithm: sliding_log }
  - key: sliding
    rate_limit: { per: 1h, requests_per_unit: 2, algorithm: sliding_window }
  - key: quota
    quota_mode: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
`

interface Kind {
  readonly store: StoreSettings
  stop(): Promise<unknown>
}

const addressOf = ({ host, port }: { host: string; port: number }) => `${host}:${port}`

const kinds: Readonly<Record<string, () => Promise<Kind>>> = {
  'one server': async () => {
    const redis = await startRedis()
    return {
      store: { mode: 'standalone', addresses: [addressOf(redis)] },
      stop: () => redis.stop(),
    }
  },
  'one server with TLS and a password': async () => {
    const redis = await startRedis({ tls: true, password: 'geheim' })
    const tls = redis.tls === undefined ? {} : { ca: redis.tls.ca }
    const addresses = [addressOf(redis)]
    const store = { mode: 'standalone' as const, addresses, password: 'geheim', tls }
    return { store, stop: () => redis.stop() }
  },
  Sentinel: async () => {
    const group = await startSentinel()
    const addresses = group.addresses.map(addressOf)
    const store = { mode: 'sentinel' as const, addresses, sentinelName: group.name }
    return { store, stop: () => group.stop() }
  },
  Cluster: async () => {
    const cluster = await startCluster()
    const addresses = cluster.addresses.map(addressOf)
    return { store: { mode: 'cluster', addresses }, stop: () => cluster.stop() }
  },
}

describe.each(Object.entries(kinds))('on %s', (_, start) => {
  let kind: Kind
  beforeAll(async () => {
    kind = await start()
  }, 60_000)
  afterAll(() => kind.stop())

  async function service() {
    const rls = await startTestRls(config, { store: kind.store, storeDeadlineMs: 2_000 })
    await untilHealthy(rls)
    return rls
  }

  const remaining = (answer: { statuses: readonly { limit_remaining: number }[] }) =>
    answer.statuses.map((status) => status.limit_remaining)

  test('descriptors are charged all or nothing, by several services', async () => {
    const [one, other] = [await service(), await service()]
    const both = request('shop', ['tenant=a'], ['route=/x'])
    expect(remaining(await one.client.ask(both))).toEqual([4, 2])
    expect(remaining(await other.client.ask(both))).toEqual([3, 1])
    expect(remaining(await one.client.ask(both))).toEqual([2, 0])
    const refused = await other.client.ask(both)
    expect(refused.overall_code).toBe('OVER_LIMIT')
    expect(refused.statuses.map(({ code }) => code)).toEqual(['OK', 'OVER_LIMIT'])
    const look = {
      domain: 'shop',
      descriptors: [{ entries: [{ key: 'tenant', value: 'a' }], hits_addend: { value: 0 } }],
    }
    await until('nothing was charged', async () => {
      return remaining(await one.client.ask(look))[0] === 2
    })
  })

  test('ten descriptors are one call', async () => {
    const { client } = await service()
    const ten = Array.from({ length: 10 }, (_, at) => [`burst=ten-${at}`])
    expect(remaining(await client.ask(request('shop', ...ten)))).toEqual(Array(10).fill(99))
    expect(remaining(await client.ask(request('shop', ...ten)))).toEqual(Array(10).fill(98))
  })

  test('250 calls at once from four connections are 100 times OK', async () => {
    const rls = await service()
    const clients = [rls.client, rls.another(), rls.another(), rls.another()]
    const asked = Array.from({ length: 250 }, (_, at) => {
      const client = clients[at % clients.length] as typeof rls.client
      return client.ask(request('shop', ['burst=exact']))
    })
    const answers = await Promise.all(asked)
    expect(answers.filter((answer) => answer.overall_code === 'OK')).toHaveLength(100)
    expect(answers.filter((answer) => answer.overall_code === 'OVER_LIMIT')).toHaveLength(150)
  })

  test.each(['bucket', 'log', 'sliding'])('the algorithm of %s holds', async (key) => {
    const { client } = await service()
    const ask = () => client.ask(request('shop', [`${key}=a`]))
    expect(remaining(await ask())).toEqual([1])
    expect(remaining(await ask())).toEqual([0])
    const refused = await ask()
    expect(refused.overall_code).toBe('OVER_LIMIT')
    const seconds = Number(refused.statuses[0]?.duration_until_reset?.seconds)
    expect(seconds).toBeGreaterThan(0)
  })

  test('an admitted call charges the quotas that have room', async () => {
    const { client } = await service()
    await client.ask(request('shop', ['quota=used']))
    const mixed = await client.ask(request('shop', ['quota=used'], ['quota=new'], ['tenant=q']))
    expect(mixed.overall_code).toBe('OK')
    expect(mixed.statuses.map(({ code }) => code)).toEqual(['OVER_LIMIT', 'OK', 'OK'])
    const over = await client.ask(request('shop', ['quota=used'], ['quota=new'], ['tenant=q']))
    expect(over.overall_code).toBe('OVER_LIMIT')
  })
})

describe('with another server for windows of a second', () => {
  test('both are used, and a call with both is all or nothing', async () => {
    const servers = await Promise.all([startRedis(), startRedis()])
    onTestFinished(async () => {
      for (const server of servers) await server.stop()
    })
    const [main, second] = servers.map(
      (server): StoreSettings => ({ mode: 'standalone', addresses: [addressOf(server)] }),
    ) as [StoreSettings, StoreSettings]
    const rls = await startTestRls(
      `
domain: shop
descriptors:
  - { key: fast, rate_limit: { unit: second, requests_per_unit: 1000 } }
  - { key: slow, rate_limit: { unit: hour, requests_per_unit: 1 } }
`,
      { store: main, perSecondStore: second, storeDeadlineMs: 2_000 },
    )
    await untilHealthy(rls)
    const both = request('shop', ['fast=a'], ['slow=a'])
    expect((await rls.client.ask(both)).overall_code).toBe('OK')
    expect((await rls.client.ask(both)).overall_code).toBe('OVER_LIMIT')
    const keys = await Promise.all(
      servers.map(async (server) => ((await server.command('KEYS', 'tg*')) as string[]).length),
    )
    expect(keys.every((count) => count > 0)).toBe(true)
  })
})

describe('an application with the library', () => {
  let redis: RedisServer
  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(() => redis.stop())

  test('shares the counters of a limit', async () => {
    const store = { mode: 'standalone' as const, addresses: [addressOf(redis)] }
    const rls = await startTestRls(config, { store, storeDeadlineMs: 2_000 })
    await untilHealthy(rls)
    const client = new Redis(redis.url)
    onTestFinished(() => client.disconnect())
    const limiter = createLimiter({
      name: 'rls.3600s',
      limit: fixedWindow({ limit: 5, per: '1h' }),
      store: redisStore(client),
    })
    // The lengths are those of the texts that follow them.
    const key = '4:shop6:tenant4:acme'
    const envoy = async () => (await rls.client.ask(request('shop', ['tenant=acme']))).statuses[0]
    expect(await envoy()).toMatchObject({ limit_remaining: 4 })
    expect(await limiter.check(key)).toMatchObject({ allowed: true, remaining: 3 })
    expect(await envoy()).toMatchObject({ limit_remaining: 2 })
    await limiter.check(key, { cost: 2 })
    expect(await envoy()).toMatchObject({ code: 'OVER_LIMIT' })
    expect(await limiter.check(key)).toMatchObject({ allowed: false })
    await limiter.close()
  })
})
