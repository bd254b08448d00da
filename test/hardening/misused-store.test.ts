/**
 * Mistakes in the set-up of Redis are no outage: they are told under a name of their own, and each
 * limit decides by its own `onStoreError` what becomes of requests meanwhile.
 */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { redisKey } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { askRaw } from '../gateway/raw-client.ts'
import { type RedisCluster, startCluster } from '../servers/cluster.ts'
import { LOOPBACK } from '../servers/ports.ts'
import { startRedis } from '../servers/redis.ts'
import { until } from '../servers/until.ts'
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
    store: { mode: 'standalone', deadline: '2s', ...store },
    upstreams: { api: { targets: [upstream.url] } },
    limits: [...limits, ...more],
  }
  return startProbedGateway(policy, { environment: { LIMITED: 'secret' } })
}

/** What three requests for each mode are answered with. */
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

/** Of one master and of two: a cluster takes two seconds to its start, so they start together. */
const clusters = new Map<number, Promise<RedisCluster>>()

beforeAll(() => {
  for (const masters of [1, 2])
    clusters.set(masters, startCluster({ masters, replicasPerMaster: 0 }))
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
  test('NOPERM is told as misused, and each limit decides for itself', async () => {
    const redis = await startRedis({ acl: ['user limited on >secret ~tg* +ping +hello +info'] })
    onTestFinished(() => redis.stop())
    const addresses = [`${redis.host}:${redis.port}`]
    const gateway = await start({ addresses, username: 'limited', password: { env: 'LIMITED' } })
    expect(await statuses(gateway.port)).toEqual(asDeclared)
    await until('it is told', () => /"event":"store\.misused".*NOPERM/.test(gateway.output()))
    const head = 'GET /open HTTP/1.1\r\nHost: a.example\r\n\r\n'
    await pipelined(gateway.port, 500, () => head)
    // Told, but not for every request: who can make the store fail must not fill a disk with it.
    expect(gateway.output().split('store.misused').length).toBeLessThan(100)
  })

  test('WRONGTYPE is told as misused, and other keys are counted as ever', async () => {
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
    await until('it is told', () => /"event":"store\.misused".*WRONGTYPE/.test(gateway.output()))
    const head = 'GET /other HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'
    const others = [await askRaw(gateway.port, head), await askRaw(gateway.port, head)]
    expect(others.map(({ status }) => status)).toEqual([200, 429])
    expect(others[0]?.headers).toMatchObject({ 'x-ratelimit-remaining': '0' })
  })

  test('CROSSSLOT, as a cluster taken for a single server does, is told as misused', async () => {
    const address = await nodeOf(1)
    const second = limits.map((limit) => ({ ...limit, name: `${limit.name}-too`, key: 'everyone' }))
    const gateway = await start({ addresses: [address] }, second)
    expect(await statuses(gateway.port)).toEqual(asDeclared)
    await until('it is told', () => /"event":"store\.misused".*CROSSSLOT/.test(gateway.output()))
  })

  test('MOVED, as one of two nodes taken for the only one does, is told as misused', async () => {
    const address = await nodeOf(2)
    const key = { key: 'path', limit: 9, per: '1h', onStoreError: 'closed' }
    const gateway = await start({ addresses: [address] }, [{ name: 'alone', ...key }])
    const ask = (at: number) => `GET /alone/${at} HTTP/1.1\r\nHost: a.example\r\n\r\n`
    const answers = new Set(await pipelined(gateway.port, 40, ask))
    await until('it is told', () => /"event":"store\.misused".*MOVED/.test(gateway.output()))
    expect(answers).toContain(503)
  })
})
