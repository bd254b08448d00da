import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { patient as bounds, PATIENCE_MS } from '../../../../../test/support/patience.ts'
import {
  type ConnectedClient,
  redisClientKinds,
} from '../../../../../test/support/servers/clients.ts'
import { type RedisCluster, startCluster } from '../../../../../test/support/servers/cluster.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { createLimiter } from '../../limiter/create-limiter.ts'
import { concurrency, fixedWindow, slidingLog, tokenBucket } from '../../limits/limits.ts'
import { tidegate } from '../../middleware/express.ts'
import { redisStore } from '../redis/redis-store.ts'
import type { Store } from '../store.ts'

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await startCluster({ masters: 3, replicasPerMaster: 0 })
})

afterAll(() => cluster?.stop())

const patient = { ...bounds, onStoreError: 'closed' } as const

const limits = {
  log: slidingLog({ limit: 2, per: '30d' }),
  bucket: tokenBucket({ limit: 50, per: '30d' }),
  window: fixedWindow({ limit: 100, per: '30d' }),
}

const keys = { log: 'ada 192.0.2.1', bucket: '192.0.2.1', window: 'ada' }

let prefixes = 0

describe.each(redisClientKinds)('several limits on a cluster with $name', (kind) => {
  let connection: ConnectedClient
  let store: Store

  beforeAll(async () => {
    connection = await kind.cluster(cluster)
  })
  afterAll(() => connection?.close())

  function newLimiter() {
    store = redisStore(connection.client, { prefix: `spread${prefixes++}`, timeoutMs: PATIENCE_MS })
    return createLimiter({ limits, store, ...patient })
  }

  /** What is left of each limit in Redis itself. */
  async function leftOf(): Promise<number[]> {
    const looks = Object.entries(limits).map(([name, limit]) => {
      const key = keys[name as keyof typeof keys]
      return store.charge([{ name, limit, key, cost: 1 }], 'peek')
    })
    return (await Promise.all(looks)).flat().map(({ remaining }) => remaining)
  }

  const isLeft = (...left: number[]) =>
    until(`${left} are left`, async () => JSON.stringify(await leftOf()) === JSON.stringify(left))

  it('are charged together, and a denied group leaves nothing charged', async () => {
    const limiter = newLimiter()
    expect((await limiter.check(keys)).remaining).toBe(1)
    expect((await limiter.check(keys)).allowed).toBe(true)
    const denied = await limiter.check(keys)
    expect(denied).toMatchObject({ allowed: false, granted: 0, violated: ['log'] })
    expect(denied.limits.bucket).toMatchObject({ allowed: true, granted: 0, remaining: 48 })
    await isLeft(0, 48, 98)
  })

  it('admit exactly the least limit of many at once, and charge no other request', async () => {
    const limiter = newLimiter()
    const decisions = await Promise.all(Array.from({ length: 40 }, () => limiter.check(keys)))
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(2)
    await limiter.close()
    await isLeft(0, 48, 98)
  })

  it('grant the same part of each', async () => {
    const limiter = newLimiter()
    const part = await limiter.check(keys, { cost: 9, partial: true })
    expect(part).toMatchObject({ allowed: true, granted: 2 })
    expect(part.limits.window).toMatchObject({ granted: 2, remaining: 98 })
    await isLeft(0, 48, 98)
    expect(await limiter.check(keys, { cost: 9, partial: true })).toMatchObject({ granted: 0 })
    await isLeft(0, 48, 98)
  })

  it('are looked at, given back and reset', async () => {
    const limiter = newLimiter()
    await limiter.check(keys, { cost: 2 })
    expect(await limiter.peek(keys)).toMatchObject({ allowed: false, violated: ['log'] })
    expect((await limiter.refund(keys)).limits.window.remaining).toBe(99)
    await isLeft(1, 49, 99)
    await limiter.reset(keys)
    await isLeft(2, 50, 100)
  })

  it('are reserved and settled', async () => {
    const limiter = newLimiter()
    const reserved = await limiter.reserve(keys, 2)
    await isLeft(0, 48, 98)
    expect((await limiter.reserve(keys, 1)).allowed).toBe(false)
    await isLeft(0, 48, 98)
    await reserved.commit(1)
    await isLeft(1, 49, 99)
    await (await limiter.reserve(keys, 1)).cancel()
    await isLeft(1, 49, 99)
  })

  it('take slots and give them back', async () => {
    const slots = concurrency({ limit: 1, ttl: '1h' })
    store = redisStore(connection.client, { prefix: `spread${prefixes++}`, timeoutMs: PATIENCE_MS })
    const limiter = createLimiter({ limits: { slots, ...limits }, store, ...patient })
    const all = { slots: 'ada', ...keys }
    const slot = await limiter.acquire(all)
    expect((await limiter.acquire(all)).violated).toEqual(['slots'])
    await isLeft(1, 49, 99)
    expect(await slot.renew()).toMatchObject({ allowed: true, degraded: null, violated: [] })
    await isLeft(1, 49, 99)
    await slot.release()
    expect((await limiter.acquire(all)).allowed).toBe(true)
  })

  it('protect a log-in as in the recipe', async () => {
    store = redisStore(connection.client, { prefix: `spread${prefixes++}`, timeoutMs: PATIENCE_MS })
    const app = express()
    const protect = tidegate({
      limits: {
        pair: slidingLog({ limit: 2, per: '15m' }),
        address: slidingLog({ limit: 50, per: '15m' }),
        account: slidingLog({ limit: 100, per: '1d' }),
      },
      key: (_request, clientIp) => ({ pair: `ada ${clientIp()}`, account: 'ada' }),
      skipSuccessfulRequests: true,
      store,
      ...{ deadlineMs: PATIENCE_MS, onStoreError: 'closed' },
    })
    app.post('/login', protect, (request, response) => {
      const isRight = request.query.password === 'right'
      response.status(isRight ? 200 : 401).send(isRight ? 'welcome' : 'wrong')
    })
    const server = createServer(app)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/login`
    const logIn = async (password: string) =>
      (await fetch(`${url}?password=${password}`, { method: 'POST' })).status
    const pair = { name: 'pair', limit: slidingLog({ limit: 2, per: '15m' }), key: 'ada 127.0.0.1' }
    const leftOfPair = async () =>
      (await store.charge([{ ...pair, cost: 1 }], 'peek'))[0]?.remaining
    // A log-in is refunded after its response was sent.
    for (let count = 0; count < 3; count += 1) {
      expect(await logIn('right')).toBe(200)
      await until('it is refunded', async () => (await leftOfPair()) === 2)
    }
    expect([await logIn('a'), await logIn('b'), await logIn('right')]).toEqual([401, 401, 429])
    server.close()
  })
})
