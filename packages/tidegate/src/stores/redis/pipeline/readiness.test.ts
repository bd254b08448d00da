import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { PATIENCE_MS, patient } from '../../../../../../test/support/patience.ts'
import { type RedisCluster, startCluster } from '../../../../../../test/support/servers/cluster.ts'
import { freePort } from '../../../../../../test/support/servers/ports.ts'
import { type RedisServer, startRedis } from '../../../../../../test/support/servers/redis.ts'
import { createLimiter } from '../../../limiter/create-limiter.ts'
import { fixedWindow } from '../../../limits/limits.ts'
import { redisStore } from '../redis-store.ts'

const limit = fixedWindow({ limit: 3, per: '1d' })

let server: RedisServer
let cluster: RedisCluster
const open: Array<{ disconnect(): void }> = []

beforeAll(async () => {
  ;[server, cluster] = await Promise.all([
    startRedis(),
    startCluster({ masters: 3, replicasPerMaster: 0 }),
  ])
})

afterEach(() => {
  for (const client of open.splice(0)) client.disconnect()
})

afterAll(async () => {
  await Promise.all([server?.stop(), cluster?.stop()])
})

/** A client that is only about to connect. Without a queue of its own it refuses until then. */
function client(port: number, enableOfflineQueue: boolean): Redis {
  const retryStrategy = () => 20
  const redis = new Redis({ port, enableOfflineQueue, maxRetriesPerRequest: null, retryStrategy })
  redis.on('error', () => undefined)
  open.push(redis)
  return redis
}

function newName(): string {
  return `n${Math.random().toString(36).slice(2)}`
}

const queues = [
  ['with a queue of the client', true],
  ['without one', false],
] as const

describe.each(queues)('the first use of a store, %s', (_name, hasQueue) => {
  it('waits for the connection, and is exact', async () => {
    const store = redisStore(client(server.port, hasQueue))
    const limiter = createLimiter({ limit, store, name: newName(), ...patient })
    const decisions = await Promise.all(Array.from({ length: 500 }, () => limiter.check('key')))
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(3)
    expect(decisions.filter(({ degraded }) => degraded !== null)).toEqual([])
  })

  it('waits for a server that starts later', async () => {
    const late = await startRedis()
    late.kill('SIGKILL')
    const store = redisStore(client(late.port, hasQueue))
    const options = { limit, store, name: newName(), ...patient }
    const limiter = createLimiter(options)
    const decisions = Promise.all(Array.from({ length: 100 }, () => limiter.check('key')))
    await late.restart()
    expect((await decisions).filter(({ allowed }) => allowed)).toHaveLength(3)
    expect((await decisions).filter(({ degraded }) => degraded !== null)).toEqual([])
    await late.stop()
  })

  it('is an outage after connectMs, and later calls do not wait again', async () => {
    const port = await freePort()
    const store = redisStore(client(port, hasQueue))
    const limiter = createLimiter({ limit, store, connectMs: 100, breaker: { callsMin: 1_000 } })
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.check('key')))
    const reason = hasQueue ? 'timeout' : 'unreachable'
    const outage = { allowed: true, degraded: { reason, mode: 'open' } }
    expect(decisions.every(({ degraded }) => degraded?.reason === reason)).toBe(true)
    expect(await limiter.check('key')).toMatchObject(outage)
    await expect(limiter.ready()).rejects.toMatchObject({ code: `store-${reason}` })
  })
})

describe('ready', () => {
  it('resolves when the store has answered', async () => {
    const store = redisStore(client(server.port, false), { timeoutMs: PATIENCE_MS })
    await store.capabilities?.ready?.(PATIENCE_MS)
    expect(await store.charge([{ name: newName(), limit, key: 'key', cost: 1 }], 'all')).toEqual([
      expect.objectContaining({ allowed: true, remaining: 2, degraded: null }),
    ])
  })

  it('leaves nothing in Redis', async () => {
    const empty = await startRedis()
    const limiter = createLimiter({
      limit,
      store: redisStore(client(empty.port, true)),
      ...patient,
    })
    await limiter.ready()
    expect(await empty.command('DBSIZE')).toBe(0)
    await empty.stop()
  })

  it('opens the connections to all masters of a cluster', async () => {
    const { Cluster } = await import('ioredis')
    const nodes = new Cluster([{ host: cluster.nodes[0]?.host, port: cluster.nodes[0]?.port }], {
      enableOfflineQueue: false,
    })
    open.push(nodes)
    const limiter = createLimiter({ limit, store: redisStore(nodes), ...patient })
    await limiter.ready()
    expect(nodes.nodes('master').map(({ status }) => status)).toEqual(['ready', 'ready', 'ready'])
  })

  it('resolves at once in memory', async () => {
    await expect(createLimiter({ limit }).ready()).resolves.toBeUndefined()
  })
})

describe('a store without probes', () => {
  const commandsOf = async (options: { probes?: boolean }) => {
    const redis = client(server.port, true)
    const sent: string[] = []
    const store = redisStore(
      {
        evalsha: (sha1, keys, args) => {
          sent.push('evalsha')
          return redis.evalsha(sha1, keys.length, ...keys, ...args)
        },
        eval: (script, keys, args) => {
          sent.push('eval')
          return redis.eval(script, keys.length, ...keys, ...args)
        },
      },
      options,
    )
    const limiter = createLimiter({ limit, store, name: newName(), ...patient })
    const { remaining, degraded } = await limiter.check('key')
    await limiter.close()
    expect([remaining, degraded]).toEqual([2, null])
    return sent.filter((command) => command === 'evalsha')
  }

  it('sends its first call at once', async () => {
    expect(await commandsOf({ probes: false })).toHaveLength(1)
    expect(await commandsOf({})).toHaveLength(3)
  })

  it('is refused with something else than true or false', () => {
    const wrong = { probes: 'no' } as unknown as { probes: boolean }
    expect(() => redisStore(client(server.port, true), wrong)).toThrow(/^redisStore\.probes: /)
  })
})
