import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../test/support/servers/redis.ts'
import { sizes } from '../../../../../test/support/suite.ts'
import type { Limit } from '../../algorithms/limit.ts'
import { concurrency, slidingLog, tokenBucket } from '../../limits/limits.ts'
import type { Charge, ChargeMode, Store } from '../store.ts'
import { redisStore } from './redis-store.ts'

const TIMEOUT_MS = 600_000

/** Charges that are asked for at once: the store makes batches of them. */
const AT_ONCE = 20_000

/** So that no key expires while it is measured; it takes as many bytes as one of a minute. */
const PER = '1d'

let server: RedisServer
let client: Redis
let store: Store

beforeAll(async () => {
  server = await startRedis()
  client = new Redis(server.url)
})

afterAll(async () => {
  await client?.quit()
  await server?.stop()
})

/** The scripts are loaded before anything is measured. */
beforeEach(async () => {
  store = redisStore(client, { timeoutMs: 60_000 })
  await chargeAll(tokenBucket({ limit: 1, per: '1h' }), 100, () => 'warm')
  await chargeAll(slidingLog({ limit: 1, per: '1h' }), 100, () => 'warm')
  await chargeAll(concurrency({ limit: 1, ttl: '1h' }), 100, () => 'warm')
  await client.flushall()
})

describe('the memory of the server', () => {
  it(
    'takes at most 120 bytes per key of a token bucket, its expiry included',
    async () => {
      const count = sizes.measuredKeys
      const limit = tokenBucket({ limit: 100, per: PER })
      const before = await usedBytes()
      const granted = await chargeAll(limit, count, (at) => `user:${at}`)
      const bytes = (await usedBytes()) - before
      expect(granted).toBe(count)
      expect(await client.dbsize()).toBe(count)
      expect(await keysWithExpiry()).toBe(count)
      report('token bucket', bytes / count)
      expect(bytes / count).toBeLessThanOrEqual(120)
    },
    TIMEOUT_MS,
  )

  // Other charges of one key that wait together become one entry.
  const mode = 'partial'
  it.each([
    { keys: 1, requests: 100_000 },
    { keys: 200, requests: 1_000 },
  ])(
    'takes at most 16 bytes per admitted request of a sliding log, $keys × $requests',
    async (shape) => {
      const { keys, requests } = shape
      const limit = slidingLog({ limit: requests, per: PER })
      const keyAt = (at: number) => `user:${at % keys}`
      const before = await usedBytes()
      const granted = await chargeAll(limit, keys * requests, keyAt, mode)
      const bytes = (await usedBytes()) - before
      expect(granted).toBe(keys * requests)
      const entries = await client.llen((await client.randomkey()) ?? '')
      expect(entries, 'an entry per request, and the sum').toBe(requests + 1)
      report(`sliding log, ${keys} × ${requests}`, bytes / granted)
      expect(bytes / granted).toBeLessThanOrEqual(16)
    },
    TIMEOUT_MS,
  )

  // A sorted set of up to 128 members is more compact than a larger one.
  it.each([
    { keys: 1, slots: 10_000, bytesMax: 170 },
    { keys: 10, slots: 1_000, bytesMax: 170 },
    { keys: 1_000, slots: 10, bytesMax: 90 },
  ])(
    'takes at most $bytesMax bytes per open slot, $keys × $slots',
    async ({ keys, slots, bytesMax }) => {
      const limit = concurrency({ limit: slots, ttl: PER })
      const before = await usedBytes()
      const granted = await chargeAll(limit, keys * slots, (at) => `user:${at % keys}`)
      const bytes = (await usedBytes()) - before
      expect(granted).toBe(keys * slots)
      expect(await keysWithExpiry()).toBe(keys)
      report(`open slots, ${keys} × ${slots}`, bytes / granted)
      expect(bytes / granted).toBeLessThanOrEqual(bytesMax)
    },
    TIMEOUT_MS,
  )
})

/** Charges 1 so many times and tells how many were granted. */
async function chargeAll(
  limit: Limit,
  count: number,
  keyAt: (at: number) => string,
  mode: ChargeMode = 'all',
) {
  let granted = 0
  for (let from = 0; from < count; from += AT_ONCE) {
    const size = Math.min(AT_ONCE, count - from)
    const charges = Array.from({ length: size }, (_, at) => {
      const charge: Charge = { name: 'api', limit, key: keyAt(from + at), cost: 1 }
      if (limit.algorithm !== 'concurrency') return store.charge([charge], mode)
      return store.charge([{ ...charge, hold: { id: randomUUID(), ttlMs: limit.ttlMs } }], mode)
    })
    for (const [decision] of await Promise.all(charges)) granted += decision?.granted ?? 0
  }
  return granted
}

async function usedBytes(): Promise<number> {
  return infoNumber(await client.info('memory'), /used_memory:(\d+)/)
}

async function keysWithExpiry(): Promise<number> {
  return infoNumber(await client.info('keyspace'), /expires=(\d+)/)
}

function infoNumber(info: string, pattern: RegExp): number {
  return Number(pattern.exec(info)?.[1] ?? Number.NaN)
}

function report(what: string, bytes: number): void {
  console.info(`${what}: ${bytes.toFixed(1)} bytes`)
}
