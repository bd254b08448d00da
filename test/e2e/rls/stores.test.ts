/**
 * The service on real Redis servers of every kind: equal responses, and exact under concurrency.
 * The deadline is long, so that a busy machine does not matter.
 */

import { Redis } from 'ioredis'
import { createLimiter, fixedWindow } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { StoreSettings } from '../../../packages/server/src/stores/create-store.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { request } from './rls-client.ts'
import { startTestRls, untilHealthy } from './rls-server.ts'
import { addressOf, type StoreKind, storeKinds } from './store-kinds.ts'

/** Longer than a machine stalls. */
const DEADLINE_MS = 30_000

const config = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: route
    rate_limit: { unit: day, requests_per_unit: 3 }
  - key: burst
    rate_limit: { unit: hour, requests_per_unit: 100 }
  - key: known
    rate_limit: { unit: year, requests_per_unit: 2 }
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

describe.each(Object.entries(storeKinds))('on %s', (_, start) => {
  let kind: StoreKind
  beforeAll(async () => {
    kind = await start()
  })
  afterAll(() => kind.stop())

  async function service() {
    const rls = await startTestRls(config, { store: kind.store, storeDeadlineMs: DEADLINE_MS })
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

  test('each descriptor is charged on its own if configured', async () => {
    const settings = { store: kind.store, storeDeadlineMs: DEADLINE_MS, charging: 'each' as const }
    const rls = await startTestRls(config, settings)
    await untilHealthy(rls)
    const both = request('shop', ['tenant=each'], ['route=/each'])
    for (let at = 0; at < 3; at++) await rls.client.ask(both)
    expect(remaining(await rls.client.ask(both))).toEqual([1, 0])
    expect((await rls.client.ask(both)).overall_code).toBe('OVER_LIMIT')
    const last = await rls.client.ask(both)
    expect(last.statuses.map(({ code }) => code)).toEqual(['OVER_LIMIT', 'OVER_LIMIT'])
  })

  test('refusals without a call of Redis are counted as such', async () => {
    const { client, debug } = await service()
    const ask = () => client.ask(request('shop', ['known=a']))
    for (let at = 0; at < 20; at++) await ask()
    const stats = await (await fetch(`${debug}/stats`)).text()
    const count = (name: string) =>
      Number(new RegExp(`rate_limit\\.shop\\.known\\.${name}: (\\d+)`).exec(stats)?.[1])
    expect(count('total_hits')).toBe(20)
    expect(count('over_limit')).toBe(18)
    // The first refusal has to be triggered.
    expect(count('over_limit_with_local_cache')).toBeGreaterThan(0)
    expect(count('over_limit_with_local_cache')).toBeLessThan(18)
  })

  test('ten descriptors are one call', async () => {
    const { client } = await service()
    const ten = Array.from({ length: 10 }, (_, at) => [`burst=ten-${at}`])
    expect(remaining(await client.ask(request('shop', ...ten)))).toEqual(Array(10).fill(99))
    expect(remaining(await client.ask(request('shop', ...ten)))).toEqual(Array(10).fill(98))
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
      { store: main, perSecondStore: second, storeDeadlineMs: DEADLINE_MS },
    )
    await untilHealthy(rls)
    const both = request('shop', ['fast=a'], ['slow=a'])
    expect((await rls.client.ask(both)).overall_code).toBe('OK')
    expect((await rls.client.ask(both)).overall_code).toBe('OVER_LIMIT')
    // A window of a second may end before the check, so expired keys count too.
    for (const server of servers) {
      const stats = String(await server.command('INFO', 'stats'))
      const expired = Number(stats.match(/expired_keys:(\d+)/)?.[1])
      expect(Number(await server.command('DBSIZE')) + expired).toBeGreaterThan(0)
    }
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
    const rls = await startTestRls(config, { store, storeDeadlineMs: DEADLINE_MS })
    await untilHealthy(rls)
    const client = new Redis(redis.url)
    onTestFinished(() => client.disconnect())
    const limiter = createLimiter({
      name: 'rls.3600s',
      limit: fixedWindow({ limit: 5, per: '1h' }),
      store: redisStore(client),
      deadlineMs: DEADLINE_MS,
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
