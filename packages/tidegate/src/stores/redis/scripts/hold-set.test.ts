import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../../test/support/servers/redis.ts'
import { until } from '../../../../../../test/support/servers/until.ts'
import type { Decision } from '../../../decision.ts'
import {
  concurrency,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../../limits/limits.ts'
import type { ChargeMode, Store } from '../../store.ts'
import { RedisKeys } from '../redis-key.ts'
import { redisStore } from '../redis-store.ts'

let server: RedisServer
let client: Redis
let store: Store

beforeAll(async () => {
  server = await startRedis()
  client = new Redis(server.url)
  store = redisStore(client, { timeoutMs: 10_000 })
})

beforeEach(() => client.flushall())

afterAll(async () => {
  await client?.quit()
  await server?.stop()
})

const per = '30d'

const HOUR_MS = 3_600_000

const inSets = {
  tokenBucket: tokenBucket({ limit: 9_000, per }),
  slidingWindow: slidingWindow({ limit: 9_000, per }),
  fixedWindow: fixedWindow({ limit: 9_000, per }),
  concurrency: concurrency({ limit: 9_000, ttl: '1h' }),
}

const all = { ...inSets, slidingLog: slidingLog({ limit: 9_000, per }) }

type AnyLimit = (typeof all)[keyof typeof all]

const cases = Object.entries(all) as [string, AnyLimit][]

/** All but slots, of which nothing is used but by holding. */
const used = cases.filter(([name]) => name !== 'concurrency')

describe.each(Object.entries(inSets) as [string, AnyLimit][])('of %s, a call', (_, limit) => {
  it('runs the same commands beside 3,000 holds as beside 300, and reads few of them', async () => {
    await takeMany(limit, 300)
    const few = await commandsOfCalls(limit)
    await takeMany(limit, 2_700)
    const many = await commandsOfCalls(limit)
    expect(many).toEqual(few)
    const ranges = many.filter(([name]) => name === 'ZRANGE')
    const sizes = ranges.map(([, , from, stop]) => Number(stop) - Number(from) + 1)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(4)
  })
})

describe.each(cases)('a counter of %s', (_, limit) => {
  it('is one key while it has holds, and none without', async () => {
    for (const id of ['a', 'b', 'c']) await hold(limit, id)
    expect(await client.dbsize()).toBe(1)
    for (const id of ['b', 'c', 'a']) await release(limit, id)
    expect(await client.dbsize()).toBe(0)
  })

  it.each([
    ['a hash', ['HSET', 'field', 'value']],
    ['a set', ['SADD', 'member']],
  ])('is not confused with %s that another program has written', async (_what, [name, ...args]) => {
    await client.call(name as string, keyOf(limit), ...args)
    await expect(hold(limit, 'a')).rejects.toThrow(/WRONGTYPE/)
    await expect(charge(limit, 1, 'peek')).rejects.toThrow(/WRONGTYPE/)
    await expect(release(limit, 'a')).rejects.toThrow(/WRONGTYPE/)
  })

  it('refuses an id that is longer than a row has room for', async () => {
    await expect(hold(limit, 'x'.repeat(37))).rejects.toThrow(/TIDEGATE-ID 37/)
    expect(await hold(limit, 'x'.repeat(36))).toMatchObject({ allowed: true, remaining: 8_999 })
  })
})

describe.each(used)('a counter of %s that is used', (_, limit) => {
  it('has its usual form again when the last hold is gone', async () => {
    await charge(limit, 5, 'partial')
    const form = await client.dump(keyOf(limit))
    await hold(limit, 'a')
    await hold(limit, 'b')
    expect(await client.dump(keyOf(limit))).not.toBe(form)
    await release(limit, 'b')
    await release(limit, 'a')
    expect(await client.dump(keyOf(limit))).toBe(form)
  })
})

describe('a set', () => {
  it('has one hold of an id that comes again', async () => {
    const first = await hold(inSets.concurrency, 'a')
    const again = await hold(inSets.concurrency, 'a')
    expect([first.remaining, again.remaining]).toEqual([8_999, 8_999])
    expect((await release(inSets.concurrency, 'a')).remaining).toBe(9_000)
  })

  it('is not an error in the statistics of the server', async () => {
    const limit = inSets.fixedWindow
    await charge(limit, 1, 'all')
    await client.config('RESETSTAT')
    await hold(limit, 'a')
    await charge(limit, 1, 'all')
    await charge(limit, 1, 'peek')
    await release(limit, 'a')
    expect(await client.info('errorstats')).not.toContain('errorstat')
  })
})

describe('a server without memory', () => {
  it.each(Object.entries(inSets))(
    'refuses one more hold and changes nothing: %s',
    async (_, limit) => {
      await hold(limit, 'a')
      await expect(withoutMemory(() => hold(limit, 'b'))).rejects.toThrow(/OOM/)
      expect((await charge(limit, 0, 'all')).remaining).toBe(8_999)
      expect((await release(limit, 'a')).remaining).toBe(9_000)
    },
  )

  it.each(cases)('lets a hold go: %s', async (_, limit) => {
    await hold(limit, 'a')
    await hold(limit, 'b')
    expect((await withoutMemory(() => release(limit, 'a'))).remaining).toBe(8_999)
    expect((await withoutMemory(() => release(limit, 'b'))).remaining).toBe(9_000)
    expect(await client.dbsize()).toBe(0)
  })

  it.each(used)('charges what a hold has become: %s', async (_, limit) => {
    await hold(limit, 'a')
    await hold(limit, 'b')
    for (const id of ['a', 'b']) await withoutMemory(() => release(limit, id, 3))
    expect((await charge(limit, 0, 'all')).remaining).toBe(8_994)
  })

  it.each(used)(
    'makes a hold beside what is used as a whole or not at all: %s',
    async (_, limit) => {
      await charge(limit, 5, 'partial')
      const { allowed, remaining } = await withoutMemory(() => hold(limit, 'a'))
      expect([allowed, remaining]).toEqual([true, 8_994])
      expect((await charge(limit, 0, 'all')).remaining).toBe(8_994)
      expect((await release(limit, 'a')).remaining).toBe(8_995)
    },
  )
})

async function charge(limit: AnyLimit, cost: number, mode: ChargeMode): Promise<Decision> {
  const [decision] = await store.charge([{ name: 'limit', key: 'key', limit, cost }], mode)
  return decision as Decision
}

async function hold(limit: AnyLimit, id: string, cost = 1): Promise<Decision> {
  const held = { name: 'limit', key: 'key', limit, cost, hold: { id, ttlMs: HOUR_MS } }
  const [decision] = await store.charge([held], 'all')
  return decision as Decision
}

async function release(limit: AnyLimit, id: string, units = 0): Promise<Decision> {
  const [left] = await store.adjust([{ name: 'limit', key: 'key', limit, units, release: id }])
  return left as Decision
}

let holds = 0

async function takeMany(limit: AnyLimit, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => hold(limit, `many ${holds++}`)))
}

/** What the server does for a hold, a denied one, a look and a release. */
async function commandsOfCalls(limit: AnyLimit): Promise<string[][]> {
  const monitor = await client.monitor()
  const seen: string[][] = []
  monitor.on('monitor', (_time: string, args: string[]) => seen.push(args))
  const { remaining } = await hold(limit, 'one')
  await hold(limit, 'denied', remaining + 1)
  await charge(limit, 1, 'peek')
  await release(limit, 'one')
  await client.echo('over')
  await until('everything is seen', () => seen.some(([name]) => name === 'echo'))
  monitor.disconnect()
  return seen.filter(([name]) => name === name?.toUpperCase()).map(withoutValues)
}

/** The command, and of one that reads a range which; the rest differs from time to time. */
function withoutValues([name = '', , ...args]: string[]): string[] {
  return name === 'ZRANGE' ? [name, 'key', ...args] : [name]
}

function keyOf(limit: AnyLimit): string {
  return new RedisKeys('tg').of('limit', limit.algorithm, 'key')
}

async function withoutMemory<T>(call: () => Promise<T>): Promise<T> {
  await client.config('SET', 'maxmemory', 1)
  try {
    return await call()
  } finally {
    await client.config('SET', 'maxmemory', 0)
  }
}
