/**
 * A misconfigured Redis is not an outage: it is reported under a name of its own, and each limit
 * decides by its `onStoreError` meanwhile.
 */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { redisKey } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { askRaw } from '../e2e/gateway/raw-client.ts'
import { type RedisCluster, startCluster } from '../support/servers/cluster.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { pipelined } from './pipelined-client.ts'
import { startProbedGateway } from './probed-gateway.ts'
import { startRecordingUpstream } from './recording-upstream.ts'

const modes = ['open', 'closed', 'local'] as const

/** One limit for each mode, each for a path of its own; 1 unit, so that local shares show. */
const limits = modes.map((mode) => ({
  name: `per-client-${mode}`,
  match: { path: `/${mode}` },
  key: 'ip',
  limit: 1,
  per: '1h',
  onStoreError: mode,
  accuracy: 'exact',
}))

async function start(store: object, more: readonly object[] = []) {
  const upstream = await startRecordingUpstream()
  const policy = {
    store: { mode: 'standalone', deadline: '30s', ...store },
    upstreams: { api: { targets: [upstream.url] } },
    limits: [...limits, ...more],
  }
  return startProbedGateway(policy, { environment: { LIMITED: 'secret' } })
}

/** The statuses of three requests for each mode. */
async function statuses(port: number) {
  const found: Record<string, number[]> = {}
  for (const mode of modes) {
    const head = `GET /${mode} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`
    found[mode] = []
    for (let count = 0; count < 3; count += 1) found[mode].push((await askRaw(port, head)).status)
  }
  return found
}

const asDeclared = { open: [200, 200, 200], closed: [503, 503, 503], local: [200, 429, 429] }

/** Clusters by their number of masters, started together because each start takes two seconds. */
const clusters = new Map<number, Promise<RedisCluster>>()

beforeAll(() => {
  for (const masters of [1, 2])
    clusters.set(masters, startCluster({ masters, replicasPerMaster: 0, nodeTimeoutMs: 15_000 }))
})

afterAll(async () => {
  for (const cluster of clusters.values()) await (await cluster).stop()
})

async function nodeOf(masters: number): Promise<string> {
  const cluster = await clusters.get(masters)
  const [node] = cluster?.masters ?? []
  return `${node?.host}:${node?.port}`
}

describe('a store that answers with', () => {
  test('NOPERM is logged as misconfigured, and each limit decides for itself', async () => {
    const redis = await startRedis({ acl: ['user limited on >secret ~tg* +ping +hello +info'] })
    onTestFinished(() => redis.stop())
    const addresses = [`${redis.host}:${redis.port}`]
    const gateway = await start({ addresses, username: 'limited', password: { env: 'LIMITED' } })
    expect(await statuses(gateway.port)).toEqual(asDeclared)
    await until('it is told', () => /"event":"store\.misconfigured".*NOPERM/.test(gateway.output()))
    const head = 'GET /open HTTP/1.1\r\nHost: a.example\r\n\r\n'
    await pipelined(gateway.port, 500, () => head)
    // Logged, but not for every request: an attacker that makes the store fail must not fill a
    // disk.
    expect(gateway.output().split('store.misconfigured').length).toBeLessThan(100)
  })

  test('WRONGTYPE is logged as misconfigured, and other keys are counted as ever', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    for (const { name } of limits) {
      const key = redisKey('tg', `tokenBucket\0${name}\0${LOOPBACK}`)
      await redis.command('RPUSH', key, 'not a counter')
    }
    const keys = (await redis.command('KEYS', '*')) as string[]
    expect(keys).toHaveLength(modes.length)
    const other = { name: 'other', key: 'everyone', limit: 1, per: '1h', match: { path: '/other' } }
    const gateway = await start({ addresses: [`${redis.host}:${redis.port}`] }, [other])
    expect(await statuses(gateway.port)).toEqual(asDeclared)
    await until('it is told', () =>
      /"event":"store\.misconfigured".*WRONGTYPE/.test(gateway.output()),
    )
    const head = 'GET /other HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'
    const others = [await askRaw(gateway.port, head), await askRaw(gateway.port, head)]
    expect(others.map(({ status }) => status)).toEqual([200, 429])
    expect(others[0]?.headers).toMatchObject({ 'x-ratelimit-remaining': '0' })
  })

  test('CROSSSLOT, of a cluster used as a single server, is logged as misconfigured', async () => {
    const address = await nodeOf(1)
    const second = limits.map((limit) => ({ ...limit, name: `${limit.name}-too`, key: 'everyone' }))
    const gateway = await start({ addresses: [address] }, second)
    expect(await statuses(gateway.port)).toEqual(asDeclared)
    await until('it is told', () =>
      /"event":"store\.misconfigured".*CROSSSLOT/.test(gateway.output()),
    )
  })

  test('MOVED, of one of two nodes used as the only one, is logged as misconfigured', async () => {
    const address = await nodeOf(2)
    const key = { key: 'path', limit: 9, per: '1h', onStoreError: 'closed' }
    const gateway = await start({ addresses: [address] }, [{ name: 'alone', ...key }])
    const ask = (at: number) => `GET /alone/${at} HTTP/1.1\r\nHost: a.example\r\n\r\n`
    const answers = new Set(await pipelined(gateway.port, 40, ask))
    await until('it is told', () => /"event":"store\.misconfigured".*MOVED/.test(gateway.output()))
    expect(answers).toContain(503)
  })
})
