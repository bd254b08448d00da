/** Ids that a client makes up are cheap: they use little memory, expire, and evict no other key. */

import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { askRaw } from '../e2e/gateway/raw-client.ts'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { pipelined } from './pipelined-client.ts'
import { MB, type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import { startRecordingUpstream } from './recording-upstream.ts'

const CONNECTIONS = 8

/** The memory of one key in Redis, with its TTL. */
const KEY_BYTES_MAX = 200

const perId = {
  name: 'per-id',
  key: [{ header: 'x-tenant' }, { header: 'x-id' }],
  otherwise: 'deny',
  limit: 3,
  per: '1h',
}

async function start(store: object) {
  const upstream = await startRecordingUpstream()
  return startProbedGateway({
    store,
    upstreams: { api: { targets: [upstream.url] } },
    // The flood is charged but has no route, so that the upstream does not matter.
    routes: [{ match: { path: '/served/**' }, upstream: 'api' }],
    limits: [perId],
  })
}

function request(path: string, tenant: string, id: string, ...others: string[]): string {
  const fields = ['Host: a.example', `X-Tenant: ${tenant}`, `X-Id: ${id}`, ...others]
  return `GET ${path} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`
}

async function flood(port: number, count: number, name: string): Promise<void> {
  const one = async (connection: number) => {
    const statuses = await pipelined(port, count / CONNECTIONS, (at) =>
      request('/flood', 'attacker', `${name}-${connection}-${at}-${'x'.repeat(40)}`),
    )
    expect(new Set(statuses)).toEqual(new Set([404]))
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, at) => one(at)))
}

/**
 * The remaining units of tenants that made one, two and three requests before; 429 if none is left.
 */
async function charge({ port }: ProbedGateway, tenant: string): Promise<string> {
  const head = request('/served/x', tenant, 'real', 'Connection: close')
  const { status, headers } = await askRaw(port, head)
  return `${status} ${headers['x-ratelimit-remaining']}`
}

async function chargeVictims(gateway: ProbedGateway): Promise<void> {
  expect(await charge(gateway, 'first')).toBe('200 2')
  for (const left of [2, 1, 0]) expect(await charge(gateway, 'blocked')).toBe(`200 ${left}`)
}

async function expectUnchanged(gateway: ProbedGateway): Promise<void> {
  expect(await charge(gateway, 'first')).toBe('200 1')
  expect(await charge(gateway, 'blocked')).toBe('429 0')
  expect(await charge(gateway, 'newcomer')).toBe('200 2')
}

describe('made-up ids of one tenant', () => {
  test('take bounded memory of a process that counts for itself', async () => {
    // Enough that memory of the process itself, such as compiled code, is a small part.
    const COUNT = 64_000
    const gateway = await start({ mode: 'memory' })
    await flood(gateway.port, 4_000, 'warm')
    await chargeVictims(gateway)
    const before = await gateway.probe()
    await flood(gateway.port, COUNT, 'more')
    await expectUnchanged(gateway)
    const after = await gateway.probe()
    expect((after.held - before.held) / COUNT).toBeLessThan(300)
  })

  test('take no memory of a process that counts in Redis, and little there', async () => {
    const COUNT = 16_000
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const addresses = [`${redis.host}:${redis.port}`]
    const gateway = await start({ mode: 'standalone', addresses, deadline: '30s' })
    await flood(gateway.port, 4_000, 'warm')
    await chargeVictims(gateway)
    const [before, bytesBefore] = [await gateway.probe(), await usedBytes(redis)]
    const keysBefore = Number(await redis.command('DBSIZE'))
    await flood(gateway.port, COUNT, 'more')
    await expectUnchanged(gateway)
    const after = await gateway.probe()
    const keys = Number(await redis.command('DBSIZE')) - keysBefore
    expect(((await usedBytes(redis)) - bytesBefore) / keys).toBeLessThan(KEY_BYTES_MAX)
    expect(after.held - before.held).toBeLessThan(10 * MB)
    expect(await withoutExpiry(redis)).toEqual([])
  })
})

async function usedBytes(redis: RedisServer): Promise<number> {
  const text = String(await redis.command('INFO', 'memory'))
  return Number(/used_memory_dataset:(\d+)/.exec(text)?.[1]) + overheadOf(text)
}

/** The overhead of the tables of keys and expiries, which grow with the keys. */
function overheadOf(text: string): number {
  return Number(/used_memory_overhead:(\d+)/.exec(text)?.[1])
}

async function withoutExpiry({ host, port }: RedisServer): Promise<string[]> {
  const client = new Redis({ host, port })
  const keys = await client.keys('*')
  const pipeline = client.pipeline()
  for (const key of keys) pipeline.pttl(key)
  const replies = (await pipeline.exec()) ?? []
  client.disconnect()
  return keys.filter((_key, at) => Number(replies[at]?.[1]) < 0)
}
