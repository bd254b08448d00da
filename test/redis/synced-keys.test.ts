/** What a limit that is counted in the process and told to Redis costs, with many keys. */

import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { createLimiter, type Limiter, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Store } from '../../packages/tidegate/src/stores/store.ts'
import { startCluster } from '../servers/cluster.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { until } from '../servers/until.ts'

const KEYS = 10_000
const ACTIVE = 100

/** More than is asked for, over so long a period that nothing comes back meanwhile. */
const LIMIT = 1_000_000
const limit = tokenBucket({ limit: LIMIT, per: '365d', accuracy: 'synced' })

/** With a deadline that a busy machine does not miss. */
function limiterOf(store: Store) {
  const limiter = createLimiter({ limit, store, deadlineMs: 1_000 })
  onTestFinished(() => limiter.close())
  return limiter
}

const keysTo = (count: number) => Array.from({ length: count }, (_, at) => `key ${at}`)

/** Asks for all of them at once, and returns how many were not decided with Redis. */
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
  const store = redisStore(client)
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
  // Two for a report. A pause of the machine makes keys too old, and they are asked for together.
  expect(calls).toBeLessThanOrEqual(10 * (reports + 1))
  await until('everything is told', async () => {
    const used = await usedOf(store, active)
    return used.every((units) => units === turns + 2)
  })
})

it('every key is told on a cluster, wherever it lies', async () => {
  const cluster = await startCluster({ replicasPerMaster: 0 })
  onTestFinished(() => cluster.stop())
  const client = new Cluster([...cluster.addresses])
  onTestFinished(() => client.disconnect())
  const store = redisStore(client)
  const limiter = limiterOf(store)
  const keys = keysTo(300)
  let degraded = 0
  for (let turn = 0; turn < 10; turn++) degraded += await checkAll(limiter, keys)
  await limiter.close()
  expect(degraded).toBe(0)
  expect(new Set(await usedOf(store, keys))).toEqual(new Set([10]))
})
