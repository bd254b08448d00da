import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { patient as bounds, PATIENCE_MS } from '../../../../../test/support/patience.ts'
import {
  type ConnectedClient,
  redisClientKinds,
} from '../../../../../test/support/servers/clients.ts'
import { type RedisCluster, startCluster } from '../../../../../test/support/servers/cluster.ts'
import { type RedisServer, startRedis } from '../../../../../test/support/servers/redis.ts'
import { createLimiter } from '../../limiter/create-limiter.ts'
import {
  concurrency,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../limits/limits.ts'
import { storeContract } from '../contract/store-contract.ts'
import type { Charge, Store } from '../store.ts'
import type { RedisClient } from './client.ts'
import { redisStore } from './redis-store.ts'

let server: RedisServer
let cluster: RedisCluster

beforeAll(async () => {
  ;[server, cluster] = await Promise.all([
    startRedis(),
    startCluster({ masters: 3, replicasPerMaster: 0 }),
  ])
})

afterAll(async () => {
  await Promise.all([server?.stop(), cluster?.stop()])
})

/** Over so long a period that no unit comes back while a test runs. */
const per = '30d'

const limits = {
  tokenBucket: tokenBucket({ limit: 100, per }),
  slidingWindow: slidingWindow({ limit: 100, per }),
  slidingLog: slidingLog({ limit: 100, per }),
  fixedWindow: fixedWindow({ limit: 100, per }),
  calendar: fixedWindow({ limit: 100, per: 'month', timeZone: 'Europe/Berlin' }),
}

async function scriptsRun(): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'))
  return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0)
}

const patient = { ...bounds, onStoreError: 'closed' } as const

describe.each(redisClientKinds)('on a single server with $name', (kind) => {
  const connection = use(() => kind.single(server))

  storeContract((clock) => redisStore(connection().client, { ...newOptions(), clock }))

  it('admits exactly the limit of many at once, in order', async () => {
    const store = redisStore(connection().client, newOptions())
    const limiter = createLimiter({ limit: tokenBucket({ limit: 100, per }), store, ...patient })
    const decisions = await Promise.all(Array.from({ length: 500 }, () => limiter.check('key')))
    expect(decisions.map(({ allowed }) => allowed)).toEqual(
      Array.from({ length: 500 }, (_, at) => at < 100),
    )
    expect(decisions.slice(0, 100).map(({ remaining }) => remaining)).toEqual(
      Array.from({ length: 100 }, (_, at) => 99 - at),
    )
  })

  it('takes the long way at once where the short one was of no use a moment ago', async () => {
    const store = redisStore(connection().client, newOptions())
    const held = charge({ limit: limits.fixedWindow })
    const hold = { id: 'a', ttlMs: 60_000 }
    await store.charge([{ ...held, hold }], 'all')
    const before = await scriptsRun()
    for (let at = 0; at < 10; at++) await store.charge([held], 'all')
    expect((await scriptsRun()) - before).toBe(11)
  })

  it('runs a script that the server does not know by its text, once', async () => {
    const store = redisStore(connection().client, newOptions())
    await server.command('SCRIPT', 'FLUSH')
    const decisions = await Promise.all(
      [1, 1, 2].map((cost) => store.charge([charge({ cost, limit: limits.fixedWindow })], 'all')),
    )
    expect(decisions.flat().map(({ remaining }) => remaining)).toEqual([99, 98, 96])
    await server.command('SCRIPT', 'FLUSH')
    const [left] = await store.adjust([{ ...charge({ limit: limits.fixedWindow }), units: -1 }])
    expect(left?.remaining).toBe(97)
  })
})

describe.each(redisClientKinds)('on a cluster with $name', (kind) => {
  const connection = use(() => kind.cluster(cluster))

  it.each(Object.entries(limits))('admits exactly the limit of many: %s', async (_, limit) => {
    const store = redisStore(connection().client, newOptions())
    const limiter = createLimiter({ limit, store, ...patient })
    for (const key of ['ada', 'grace', 'edsger']) {
      const decisions = await Promise.all(Array.from({ length: 250 }, () => limiter.check(key)))
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(100)
    }
  })

  it('gives slots and gives them back', async () => {
    const store = redisStore(connection().client, newOptions())
    const limit = concurrency({ limit: 1, ttl: '1h' })
    const limiter = createLimiter({ limit, store, ...patient })
    const slot = await limiter.acquire('key')
    expect((await limiter.acquire('key')).allowed).toBe(false)
    await slot.release()
    expect((await limiter.acquire('key')).allowed).toBe(true)
  })

  it('loads its scripts into every node', async () => {
    const store = redisStore(connection().client, newOptions())
    await Promise.all(cluster.masters.map((master) => master.command('SCRIPT', 'FLUSH')))
    const keys = Array.from({ length: 50 }, (_, at) => `key ${at}`)
    const groups = keys.map((key) => store.charge([charge({ key })], 'all'))
    const decisions = await Promise.all(groups)
    expect(new Set(decisions.flat().map(({ remaining }) => remaining))).toEqual(new Set([99]))
    const known = cluster.masters.map((master) => master.command('INFO', 'memory'))
    for (const info of await Promise.all(known)) {
      expect(info).toMatch(/number_of_cached_scripts:[1-9]/)
    }
  })

  it('judges several limits in one step where they lie within the same key', async () => {
    const store = redisStore(connection().client, newOptions())
    const two = tokenBucket({ limit: 2, per })
    const limiter = createLimiter({
      limits: { org: limits.tokenBucket, plan: limits.slidingLog, user: two },
      within: 'org',
      store,
      ...patient,
    })
    const keys = { org: '}{', plan: 'free', user: '{ada}' }
    const decisions = await Promise.all(Array.from({ length: 50 }, () => limiter.check(keys)))
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(2)
    const other = await limiter.check({ ...keys, user: 'grace' })
    expect(other.limits.org.remaining).toBe(97)
    expect(other.limits.plan.remaining).toBe(97)
    await limiter.reset(keys)
    expect((await limiter.peek(keys)).remaining).toBe(2)
  })

  it('lets a limit take part that everybody shares, and never exceeds it', async () => {
    const prefix = newPrefix()
    const limitsOfAll = {
      everyone: tokenBucket({ limit: 200, per }),
      org: tokenBucket({ limit: 100, per }),
      user: tokenBucket({ limit: 5, per }),
    }
    const limiters = [1, 2].map(() =>
      createLimiter({
        limits: limitsOfAll,
        within: 'org',
        shared: ['everyone'],
        store: redisStore(connection().client, { prefix, timeoutMs: PATIENCE_MS }),
        ...patient,
      }),
    )
    const requests = Array.from({ length: 600 }, (_, at) => {
      const keys = { everyone: 'all', org: `org ${at % 7}`, user: `user ${at % 60}` }
      return (limiters[at % 2] as (typeof limiters)[0]).check(keys)
    })
    const decisions = await Promise.all(requests)
    const admitted = decisions.filter(({ allowed }) => allowed).length
    await Promise.all(limiters.map((limiter) => limiter.close()))
    expect(admitted).toBeLessThanOrEqual(200)
    expect(admitted).toBeGreaterThanOrEqual(190)
    const store = redisStore(connection().client, { prefix, timeoutMs: PATIENCE_MS })
    const everyone = { name: 'everyone', limit: limitsOfAll.everyone, key: 'all', cost: 0 }
    const [look] = await store.charge([everyone], 'all')
    expect(look?.remaining).toBe(200 - admitted)
  })

  it('refuses several limits in one group, and charges none of them', async () => {
    const store = redisStore(connection().client, newOptions())
    const group = [charge({ name: 'one' }), charge({ name: 'other' })]
    const wrongUse = expect.objectContaining({ code: 'wrong-use' })
    await expect(store.charge(group, 'all')).rejects.toThrow(wrongUse)
    const adjusted = store.adjust(group.map((counter) => ({ ...counter, units: 1 })))
    await expect(adjusted).rejects.toThrow(wrongUse)
    await expect(store.reset(group)).rejects.toThrow(wrongUse)
    const [look] = await store.charge([charge({ name: 'one', cost: 0 })], 'all')
    expect(look?.remaining).toBe(100)
  })
})

describe('options', () => {
  const connection = use(() => firstKind.single(server))

  it.each([
    ['an empty prefix', { prefix: '' }, /^redisStore\.prefix: got "", allowed: 1 to 32 of/],
    ['a hash tag', { prefix: '{tg}' }, /^redisStore\.prefix: got "\{tg\}"/],
    ['a pattern', { prefix: 'tg*' }, /^redisStore\.prefix: /],
    ['a long prefix', { prefix: 'x'.repeat(33) }, /^redisStore\.prefix: /],
    ['a number', { prefix: 1 }, /^redisStore\.prefix: got 1/],
    ['an unknown option', { perfix: 'tg' }, /^redisStore\.perfix: /],
    ['no object', 'tg', /^redisStore: got "tg"/],
  ])('refuse %s', (_what, options, message) => {
    const refused = () => redisStore(connection().client, options as object)
    expect(refused).toThrow(message)
    expect(refused).toThrow(expect.objectContaining({ code: 'invalid-option' }))
  })

  it('refuse what is not a client', () => {
    const options = { host: '127.0.0.1' } as unknown as RedisClient
    expect(() => redisStore(options)).toThrow(/^client: got an object, allowed: a client of/)
  })
})

it('passes arrays to a client that only looks like one of ioredis', async () => {
  const { promise: called, resolve } = Promise.withResolvers<unknown[]>()
  const evalsha = async (...args: unknown[]) => resolve(args)
  const overHttp = { evalsha, eval: evalsha, pipeline: () => ({}), options: undefined }
  const charge = { name: 'one', limit: limits.tokenBucket, key: 'ada', cost: 1 }
  // Whatever becomes of it: this client has no reply.
  void Promise.resolve(redisStore(overHttp).charge([charge], 'all')).catch(() => undefined)
  const [sha1, keys, args] = await called
  expect(sha1).toMatch(/^[0-9a-f]{40}$/)
  expect(keys).toEqual([expect.stringMatching(/^tg[\w-]{12}$/)])
  expect(args).toEqual(expect.arrayContaining([expect.any(String)]))
})

describe('keys', () => {
  const connection = use(() => firstKind.single(server))

  it('of another prefix are apart', async () => {
    const one = redisStore(connection().client, newOptions())
    const other = redisStore(connection().client, newOptions())
    await one.charge([charge({ cost: 60 })], 'all')
    const [decision] = await other.charge([charge({ cost: 60 })], 'all')
    expect(decision?.allowed).toBe(true)
  })

  it('begin with the prefix, have a fixed length, and expire from the first write on', async () => {
    const prefix = newPrefix()
    const store = redisStore(connection().client, { prefix, timeoutMs: PATIENCE_MS })
    const odd = ['a', '{a}b', '}{', 'a\r\nb', '\ud800', '*', 'x'.repeat(1000)]
    for (const [name, limit] of Object.entries({ ...limits, slots })) {
      for (const key of odd) await useEveryWay(store, { name, limit, key, cost: 2 })
    }
    const found = await keysOf(prefix)
    expect(found).toHaveLength(odd.length * (2 * Object.keys(limits).length + 1))
    expect(found.filter((key) => !/^[\w:-]+$/.test(key))).toEqual([])
    expect(new Set(found.map(({ length }) => length))).toEqual(new Set([prefix.length + 12]))
    const lifetimes = await Promise.all(found.map((key) => server.command('PTTL', key)))
    expect(lifetimes.filter((ms) => !(Number(ms) > 0))).toEqual([])
  })

  it('are gone when nothing is used or held any more', async () => {
    const prefix = newPrefix()
    const store = redisStore(connection().client, { prefix, timeoutMs: PATIENCE_MS })
    for (const [name, limit] of Object.entries(limits)) {
      const counter = charge({ name, limit })
      await store.charge([counter], 'all')
      await store.adjust([{ ...counter, units: -1 }])
      await store.charge([{ ...counter, hold: { id: 'a', ttlMs: 60_000 } }], 'all')
      await store.adjust([{ ...counter, units: 0, release: 'a' }])
      await store.charge([counter], 'all')
      await store.reset([counter])
    }
    expect(await keysOf(prefix)).toEqual([])
  })
})

describe('time', () => {
  const connection = use(() => firstKind.single(server))

  it.each(Object.entries(limits))(
    "is the server's, whatever the clocks of the processes say: %s",
    async (_, limit) => {
      const prefix = newPrefix()
      const right = redisStore(connection().client, { prefix, timeoutMs: PATIENCE_MS })
      const wrong = redisStore(connection().client, { prefix, timeoutMs: PATIENCE_MS })
      const remaining: (number | undefined)[] = []
      for (const hours of [0, 1, -1, 0]) {
        const clock = vi.spyOn(Date, 'now').mockImplementation(() => realNow() + hours * HOUR_MS)
        const store = hours === 0 ? right : wrong
        const [decision] = await store.charge([charge({ limit, cost: 25 })], 'all')
        clock.mockRestore()
        remaining.push(decision?.remaining)
      }
      expect(remaining).toEqual([75, 50, 25, 0])
    },
  )

  it('finds the calendar day of the server also from a clock that is ten days off', async () => {
    const limit = fixedWindow({ limit: 2, per: 'day', timeZone: 'Asia/Tokyo' })
    const store = redisStore(connection().client, newOptions())
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => realNow() - 240 * HOUR_MS)
    const [first] = await store.charge([charge({ limit })], 'all')
    clock.mockRestore()
    const [second] = await store.charge([charge({ limit })], 'all')
    expect([first?.remaining, second?.remaining]).toEqual([1, 0])
  })
})

describe('an error of the server', () => {
  const connection = use(() => firstKind.single(server))

  it('rejects the groups that travelled together with its message, and no other', async () => {
    const prefix = newPrefix()
    const store = redisStore(connection().client, { prefix, timeoutMs: PATIENCE_MS })
    const limit = limits.fixedWindow
    await store.charge([charge({ key: 'spoilt', limit })], 'all')
    const [spoilt = ''] = await keysOf(prefix)
    await server.command('DEL', spoilt)
    await server.command('RPUSH', spoilt, 'not ours')
    const keys = ['a', 'spoilt', ...Array.from({ length: 298 }, (_, at) => `key ${at}`)]
    const results = await Promise.allSettled(
      keys.map((key) => store.charge([charge({ key, limit })], 'all')),
    )
    const messages = results.flatMap((result) =>
      result.status === 'rejected' ? [String(result.reason)] : [],
    )
    expect(results[1]?.status).toBe('rejected')
    for (const message of messages) expect(message).toContain('WRONGTYPE')
    // At most 128 travel in one command.
    expect(messages.length).toBeLessThanOrEqual(128)
    // What the command had charged before the error stays charged: less is admitted, never more.
    const [a] = await store.charge([charge({ key: 'a', limit, cost: 0 })], 'all')
    expect(a?.remaining).toBe(99)
  })

  it.each(['all', 'partial', 'peek'] as const)(
    'charges nothing of the group that it is in: %s',
    async (mode) => {
      const prefix = newPrefix()
      const store = redisStore(connection().client, { prefix, timeoutMs: PATIENCE_MS })
      const good = charge({ name: 'good', limit: limits.slidingLog })
      const bad = charge({ name: 'bad', limit: limits.fixedWindow })
      await store.charge([bad], 'all')
      const [spoilt = ''] = await keysOf(prefix)
      await server.command('DEL', spoilt)
      await server.command('RPUSH', spoilt, 'not ours')
      await expect(store.charge([good, bad], mode)).rejects.toThrow(/WRONGTYPE/)
      const [left] = await store.charge([{ ...good, cost: 0 }], 'all')
      expect(left?.remaining).toBe(100)
    },
  )
})

const firstKind = redisClientKinds[0] as (typeof redisClientKinds)[number]

const slots = concurrency({ limit: 100, ttl: '1h' })

function charge(part: Partial<Charge> = {}): Charge {
  return { name: 'limit', key: 'key', cost: 1, limit: tokenBucket({ limit: 100, per }), ...part }
}

/** Charges, holds, looks at and adjusts a counter, and one of another name. */
async function useEveryWay(store: Store, counter: Charge): Promise<void> {
  const hold = { id: 'held', ttlMs: 60_000 }
  await store.charge([{ ...counter, hold }], 'all')
  if (counter.limit.algorithm === 'concurrency') return
  await store.adjust([{ ...counter, units: 1, release: 'held' }])
  const other = { ...counter, name: `other ${counter.name}` }
  await store.charge([counter, other], 'all')
  await store.charge([counter], 'partial')
  await store.charge([counter], 'peek')
  await store.adjust([{ ...counter, units: -1 }])
}

async function keysOf(prefix: string): Promise<string[]> {
  const found = await server.command('KEYS', `${prefix}*`)
  return Array.isArray(found) ? found.map(String) : []
}

const realNow = Date.now

const HOUR_MS = 3_600_000

let prefixes = 0

/** Prefixes of equal length, so that none begins another and a test sees only its own keys. */
function newPrefix(): string {
  return `t${String(++prefixes).padStart(4, '0')}:`
}

function newOptions() {
  return { prefix: newPrefix(), timeoutMs: PATIENCE_MS }
}

/** A connection for the tests of one suite. */
function use(connect: () => Promise<ConnectedClient>): () => ConnectedClient {
  let connected: ConnectedClient | undefined
  beforeAll(async () => {
    connected = await connect()
  })
  afterAll(() => connected?.close())
  return () => {
    if (connected === undefined) throw new Error('not connected')
    return connected
  }
}
