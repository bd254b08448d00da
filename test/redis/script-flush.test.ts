import { describe, expect, it } from 'vitest'
import type { Decision } from '../../packages/tidegate/src/decision.ts'
import { createLimiter, fixedWindow, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Store } from '../../packages/tidegate/src/stores/store.ts'
import { PATIENCE_MS, patient } from '../support/patience.ts'
import { type ConnectedClient, redisClientKinds } from '../support/servers/clients.ts'
import { startCluster } from '../support/servers/cluster.ts'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'

const FLUSHES = 20

/** Callers at once per client and kind of request. */
const CALLERS = 8

/** More than all requests of a test, with a period so long that no unit is refilled. */
const limit = { limit: 1_000_000, per: '365d', accuracy: 'exact' } as const

describe('while the server forgets its scripts', () => {
  it('every decision is made, and none is counted twice', async () => {
    const server = await startRedis()
    try {
      const clients = await Promise.all(redisClientKinds.map((kind) => kind.single(server)))
      const requests = (store: Store) => [...singleRequests(store), twoLimitsRequest(store)]
      await flushUnderLoad([server], clients, requests)
    } finally {
      await server.stop()
    }
  })

  it('every decision is made on a cluster, and none is counted twice', async () => {
    const cluster = await startCluster({ masters: 3, replicasPerMaster: 0 })
    try {
      const clients = await Promise.all(redisClientKinds.map((kind) => kind.cluster(cluster)))
      await flushUnderLoad(cluster.masters, clients, singleRequests)
    } finally {
      await cluster.stop()
    }
  })
})

/** A request that must be counted once, and its count in the store. */
interface Request {
  send(): Promise<Pick<Decision, 'allowed' | 'degraded'>>
  used(): Promise<number>
}

async function flushUnderLoad(
  servers: readonly RedisServer[],
  clients: readonly ConnectedClient[],
  requestsOn: (store: Store) => Request[],
): Promise<void> {
  const requests = clients.map(({ client }) =>
    requestsOn(redisStore(client, { timeoutMs: PATIENCE_MS })),
  )
  const kinds = requests[0]?.length ?? 0
  const admitted = Array.from({ length: kinds }, () => 0)
  let isFlushing = true
  const call = async (request: Request, kind: number) => {
    while (isFlushing) {
      expect(await request.send()).toMatchObject({ allowed: true, degraded: null })
      admitted[kind] = (admitted[kind] ?? 0) + 1
    }
  }
  const callers = requests.flatMap((ofClient) =>
    ofClient.flatMap((request, kind) => Array.from({ length: CALLERS }, () => call(request, kind))),
  )
  const flushed = flushRepeatedly(servers).finally(() => {
    isFlushing = false
  })
  await Promise.all([flushed, ...callers])
  const used = requests[0]?.map((request) => request.used()) ?? []
  expect(await Promise.all(used)).toEqual(admitted)
  expect(Math.min(...admitted)).toBeGreaterThan(FLUSHES)
  for (const { close } of clients) close()
}

/** Flushes the scripts again after each NOSCRIPT reply of the server. */
async function flushRepeatedly(servers: readonly RedisServer[]): Promise<void> {
  for (let flushes = 0; flushes < FLUSHES; flushes++) {
    const before = await refusals(servers)
    await until('a script is refused', async () => {
      // Clients that were refused before may load their scripts after a flush: one is not enough.
      await Promise.all(servers.map((server) => server.command('SCRIPT', 'FLUSH')))
      return (await refusals(servers)) > before
    })
  }
}

async function refusals(servers: readonly RedisServer[]): Promise<number> {
  const counts = servers.map(async (server) => {
    const stats = String(await server.command('INFO', 'errorstats'))
    return Number(/errorstat_NOSCRIPT:count=(\d+)/.exec(stats)?.[1] ?? 0)
  })
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0)
}

/** Requests with the same limits and keys for every client, so that all share the counters. */
function singleRequests(store: Store): Request[] {
  const bucket = createLimiter({ limit: tokenBucket(limit), store, ...patient })
  const window = createLimiter({ limit: fixedWindow(limit), store, ...patient })
  const used = async (peek: Promise<{ remaining: number }>) => limit.limit - (await peek).remaining
  return [
    { send: () => bucket.check('checked'), used: () => used(bucket.peek('checked')) },
    { send: () => window.check('checked'), used: () => used(window.peek('checked')) },
    {
      async send() {
        const reservation = await window.reserve('reserved', 5)
        await reservation.commit(1)
        return reservation
      },
      used: () => used(window.peek('reserved')),
    },
  ]
}

function twoLimitsRequest(store: Store): Request {
  const limits = { bucket: tokenBucket(limit), window: fixedWindow(limit) }
  const limiter = createLimiter({ limits, store, ...patient })
  const keys = { bucket: 'both', window: 'both' }
  return {
    send: () => limiter.check(keys),
    async used() {
      const { bucket, window } = (await limiter.peek(keys)).limits
      expect(bucket.remaining).toBe(window.remaining)
      return limit.limit - window.remaining
    },
  }
}
