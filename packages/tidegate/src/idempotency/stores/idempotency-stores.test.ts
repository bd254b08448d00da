import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PATIENCE_MS } from '../../../../../test/support/patience.ts'
import {
  type ConnectedClient,
  redisClientKinds,
} from '../../../../../test/support/servers/clients.ts'
import { type RedisCluster, startCluster } from '../../../../../test/support/servers/cluster.ts'
import { type RedisServer, startRedis } from '../../../../../test/support/servers/redis.ts'
import { type RedisSentinel, startSentinel } from '../../../../../test/support/servers/sentinel.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { manualClock } from '../../clock.ts'
import { randomUUID } from '../../runtime.ts'
import { idempotencyStoreContract } from '../contract/idempotency-store-contract.ts'
import type { IdempotencyStore } from './idempotency-store.ts'
import { memoryIdempotencyStore } from './memory-idempotency-store.ts'
import { redisIdempotencyStore } from './redis-idempotency-store.ts'

/** Time is not the subject of these tests, and the machine may be busy. */
const patient = { deadlineMs: PATIENCE_MS, connectMs: PATIENCE_MS }

const fingerprint = 'a'.repeat(43)

function claimOf(ttlMs: number) {
  return { token: randomUUID(), fingerprint, leaseMs: ttlMs, ttlMs, takesOver: true }
}

let server: RedisServer
let cluster: RedisCluster
let sentinel: RedisSentinel
const clients: ConnectedClient[] = []

beforeAll(async () => {
  ;[server, cluster, sentinel] = await Promise.all([
    startRedis(),
    startCluster({ masters: 3, replicasPerMaster: 0 }),
    startSentinel(),
  ])
})

afterAll(async () => {
  for (const { close } of clients) close()
  await Promise.all([server?.stop(), cluster?.stop(), sentinel?.stop()])
})

async function opened(connecting: Promise<ConnectedClient>) {
  const connected = await connecting
  clients.push(connected)
  return connected.client
}

describe('in memory', () => {
  idempotencyStoreContract((clock) => memoryIdempotencyStore({ clock }))

  const result = 'x'.repeat(100)

  function complete(store: IdempotencyStore, key: string, ttlMs = 1_000) {
    const claim = claimOf(ttlMs)
    store.claim(key, claim)
    return store.complete(key, { ...claim, result })
  }

  it('forgets a record exactly when its lifetime ends', () => {
    const clock = manualClock()
    const store = memoryIdempotencyStore({ clock })
    complete(store, 'ada')
    clock.advance(999)
    expect(store.claim('ada', claimOf(1))).toEqual({ state: 'done', result })
    clock.advance(1)
    expect(store.claim('ada', claimOf(1))).toEqual({ state: 'owned', isRetry: false })
  })

  it('evicts the results that expire first, and no key that is running', () => {
    const store = memoryIdempotencyStore({ keysMax: 3 })
    store.claim('running', claimOf(1_000))
    for (const key of ['one', 'two', 'three']) complete(store, key)
    const look = { ...claimOf(1_000), token: '' }
    const states = ['running', 'one', 'two', 'three'].map((key) => store.claim(key, look))
    expect(states).toMatchObject([
      { state: 'running' },
      { state: 'free' },
      { state: 'done' },
      { state: 'done' },
    ])
  })

  it('keeps results within its bytes', () => {
    const store = memoryIdempotencyStore({ bytesMax: 1_024 })
    for (let at = 0; at < 20; at++) complete(store, `key ${at}`)
    const look = { ...claimOf(1_000), token: '' }
    const kept = Array.from({ length: 20 }, (_, at) => store.claim(`key ${at}`, look)).filter(
      (one) => 'state' in one && one.state === 'done',
    )
    expect(kept).toHaveLength(5)
  })

  it('refuses a claim if it is full of keys that are running', () => {
    const store = memoryIdempotencyStore({ keysMax: 1 })
    store.claim('one', claimOf(1_000))
    expect(() => store.claim('two', claimOf(1_000))).toThrow(/full of running keys/)
  })
})

describe.each(redisClientKinds.map((kind) => [kind.name, kind] as const))('%s', (_, kind) => {
  describe('on one server', () => {
    idempotencyStoreContract(async (clock) =>
      redisIdempotencyStore(await opened(kind.single(server)), { clock, ...patient }),
    )
  })
})

describe.each(
  redisClientKinds.filter(({ name }) => name.endsWith('6')).map((one) => [one.name, one] as const),
)('%s', (_, kind) => {
  describe('on Cluster', () => {
    let client: Promise<ConnectedClient['client']> | undefined
    idempotencyStoreContract(async (clock) => {
      client ??= opened(kind.cluster(cluster))
      return redisIdempotencyStore(await client, { clock, ...patient })
    })
  })

  it('works with Sentinel', async () => {
    const store = redisIdempotencyStore(await opened(kind.sentinel(sentinel)), patient)
    const claim = claimOf(60_000)
    expect(await store.claim(claim.token, claim)).toMatchObject({ state: 'owned' })
    expect(await store.complete(claim.token, { ...claim, result: 'done' })).toBe(true)
    expect(await store.claim(claim.token, claim)).toEqual({ state: 'done', result: 'done' })
  })
})

describe('in Redis', () => {
  const [kind] = redisClientKinds
  const open = async () => {
    if (kind === undefined) throw new Error('no client')
    return redisIdempotencyStore(await opened(kind.single(server)), patient)
  }

  it('gives every record its lifetime, counted from the last change', async () => {
    const store = await open()
    const key = randomUUID()
    const claim = claimOf(60_000)
    const lifetime = () => server.command('PTTL', `tgi${key}`)
    await store.claim(key, claim)
    expect(await lifetime()).toBeGreaterThan(30_000)
    await store.complete(key, { ...claim, result: 'r', ttlMs: 600_000 })
    expect(await lifetime()).toBeGreaterThan(500_000)
    await store.complete(key, { ...claim, result: 'r', ttlMs: 900_000 })
    expect(await lifetime()).toBeLessThanOrEqual(600_000)
  })

  it('forgets a record when its lifetime ends', async () => {
    const store = await open()
    const key = randomUUID()
    const claim = claimOf(50)
    await store.claim(key, claim)
    await store.complete(key, { ...claim, result: 'r' })
    await until('the key is free', async () => {
      return (await store.claim(key, { ...claim, token: '' })).state === 'free'
    })
  })

  async function commandsOf(work: () => Promise<unknown>) {
    const count = async () => {
      const stats = String(await server.command('INFO', 'commandstats'))
      const counts = stats.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)
      return [...counts].reduce((sum, [, calls]) => sum + Number(calls), 0)
    }
    const before = await count()
    await work()
    return (await count()) - before
  }

  it('takes one command for the calls of one moment, of any kind', async () => {
    const store = await open()
    const owned = Array.from({ length: 20 }, () => claimOf(60_000))
    await Promise.all(owned.map((claim) => store.claim(claim.token, claim)))
    const fresh = Array.from({ length: 40 }, () => claimOf(60_000))
    const replies: unknown[] = []
    const commands = await commandsOf(async () => {
      const completions = owned.map((one, at) =>
        store.complete(one.token, { ...one, result: `result ${at}` }),
      )
      const claims = fresh.map((claim) => store.claim(claim.token, claim))
      replies.push(...(await Promise.all([...completions, ...claims])))
    })
    expect(commands).toBe(1)
    expect(replies.slice(0, 20)).toEqual(owned.map(() => true))
    expect(replies.slice(20)).toEqual(fresh.map(() => ({ state: 'owned', isRetry: false })))
    const results = await Promise.all(owned.map((claim) => store.claim(claim.token, claim)))
    expect(results).toEqual(owned.map((_, at) => ({ state: 'done', result: `result ${at}` })))
  })

  it('takes a command for each large result', async () => {
    const store = await open()
    const owned = Array.from({ length: 3 }, () => claimOf(60_000))
    await Promise.all(owned.map((claim) => store.claim(claim.token, claim)))
    const result = 'x'.repeat(40_000)
    const completeAll = () =>
      Promise.all(owned.map((one) => store.complete(one.token, { ...one, result })))
    expect(await commandsOf(completeAll)).toBe(3)
  })

  it('works on a server that has forgotten its scripts', async () => {
    const store = await open()
    await store.claim(randomUUID(), claimOf(60_000))
    await server.command('SCRIPT', 'FLUSH')
    const [one, other] = [claimOf(60_000), claimOf(60_000)]
    const keys = [randomUUID(), randomUUID()] as const
    const claims = [store.claim(keys[0], one), store.claim(keys[1], other)]
    const again = [store.claim(keys[0], other), store.claim(keys[1], one)]
    const states = (await Promise.all([...claims, ...again])).map(({ state }) => state)
    expect(states).toEqual(['owned', 'owned', 'running', 'running'])
  })

  it('has keys without text of clients', async () => {
    const store = await open()
    await store.claim('record', claimOf(60_000))
    expect(await server.command('EXISTS', 'tgirecord')).toBe(1)
  })

  it('shortens a lease that a clock has put far into the future', async () => {
    if (kind === undefined) throw new Error('no client')
    const client = await opened(kind.single(server))
    const clock = manualClock()
    const store = redisIdempotencyStore(client, { clock, ...patient })
    const key = randomUUID()
    await store.claim(key, claimOf(10_000))
    clock.jump(-3_600_000)
    expect(await store.claim(key, claimOf(10_000))).toEqual({
      state: 'running',
      leaseLeftMs: 10_000,
    })
    clock.advance(10_000)
    expect(await store.claim(key, claimOf(10_000))).toMatchObject({ state: 'owned' })
  })
})
