/** The cost of limits with accuracy `synced`, with many keys. */

import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { createLimiter, type Limiter, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Store } from '../../packages/tidegate/src/stores/store.ts'
import { PATIENCE_MS, patient } from '../support/patience.ts'
import { startCluster } from '../support/servers/cluster.ts'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'

const KEYS = 10_000
const ACTIVE = 100

/** More than is requested, with a period so long that no unit is refilled. */
const LIMIT = 1_000_000
const limit = tokenBucket({ limit: LIMIT, per: '365d', accuracy: 'synced' })

/** A limiter with a deadline that a busy machine does not miss. */
function limiterOf(store: Store) {
  const limiter = createLimiter({ limit, store, ...patient })
  onTestFinished(() => limiter.close())
  return limiter
}

const keysTo = (count: number) => Array.from({ length: count }, (_, at) => `key ${at}`)

/** Checks all keys at once, and returns the number of degraded decisions. */
async function checkAll(limiter: Limiter<string>, keys: readonly string[]): Promise<number> {
  const decisions = await Promise.all(keys.map((key) => limiter.check(key)))
  return decisions.filter(({ degraded }) => degraded !== null).length
}

async function usedOf(store: Store, keys: readonly string[]): Promise<number[]> {
  const looks = keys.map((key) => store.charge([{ name: 'default', limit, key, cost: 0 }], 'peek'))
  return (await Promise.all(looks)).map(([look]) => LIMIT - (look?.remaining ?? 0))
}

async function scriptCalls(server: RedisServer): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'))
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

it('a hundred active keys of ten thousand take a few commands for each report', async () => {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  const client = new Redis(server.url)
  onTestFinished(() => client.disconnect())
  const store = redisStore(client, { timeoutMs: PATIENCE_MS })
  const limiter = limiterOf(store)
  const active = keysTo(ACTIVE)
  let degraded = await checkAll(limiter, keysTo(KEYS))
  degraded += await checkAll(limiter, active)

  const before = await scriptCalls(server)
  const startMs = performance.now()
  const turns = 300
  for (let turn = 0; turn < turns; turn++) {
    degraded += await checkAll(limiter, active)
    await sleep(5)
  }
  const calls = (await scriptCalls(server)) - before
  const reports = Math.ceil((performance.now() - startMs) / 100)
  console.log(`${turns * ACTIVE} decisions, ${reports} reports, ${calls} commands`)
  expect(degraded).toBe(0)
  // Two for a report. After a stall of the machine, old keys are read together.
  expect(calls).toBeLessThanOrEqual(10 * (reports + 1))
  await until('all counts are reported', async () => {
    expect(new Set(await usedOf(store, active))).toEqual(new Set([turns + 2]))
    return true
  })
})

it('every key is reported on a cluster, on every shard', async () => {
  const cluster = await startCluster({ replicasPerMaster: 0 })
  onTestFinished(() => cluster.stop())
  const client = new Cluster([...cluster.addresses])
  onTestFinished(() => client.disconnect())
  const store = redisStore(client, { timeoutMs: PATIENCE_MS })
  const limiter = limiterOf(store)
  const keys = keysTo(300)
  let degraded = 0
  for (let turn = 0; turn < 10; turn++) degraded += await checkAll(limiter, keys)
  await limiter.close()
  expect(degraded).toBe(0)
  expect(new Set(await usedOf(store, keys))).toEqual(new Set([10]))
})
