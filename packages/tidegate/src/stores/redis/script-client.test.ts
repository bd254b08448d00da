/** Clients that are given as an object with `evalsha` and `eval`, as docs/redis.md shows them. */

import { Redis } from '@upstash/redis'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import { patient as bounds, PATIENCE_MS } from '../../../../../test/support/patience.ts'
import { type RedisCluster, startCluster } from '../../../../../test/support/servers/cluster.ts'
import { type RedisServer, startRedis } from '../../../../../test/support/servers/redis.ts'
import { startUpstash, type UpstashServer } from '../../../../../test/support/servers/upstash.ts'
import { createLimiter } from '../../limiter/create-limiter.ts'
import { slidingWindow, tokenBucket } from '../../limits/limits.ts'
import { storeContract } from '../contract/store-contract.ts'
import type { Store } from '../store.ts'
import { redisClientContract } from './client-contract.ts'
import { redisStore, type ScriptClient } from './redis-store.ts'

const glide = await import('@valkey/valkey-glide').catch(() => undefined)

let server: RedisServer
let cluster: RedisCluster
let upstash: UpstashServer

beforeAll(async () => {
  ;[server, cluster] = await Promise.all([
    startRedis(),
    startCluster({ masters: 3, replicasPerMaster: 0 }),
  ])
  upstash = await startUpstash(server)
})

afterAll(async () => {
  await upstash?.stop()
  await Promise.all([server?.stop(), cluster?.stop()])
})

describe('@upstash/redis', () => {
  const connect = (options = {}) => {
    const { url, token } = upstash
    return new Redis({ url, token, retry: false, ...options })
  }

  const raw = { automaticDeserialization: false }
  const connected = async (options: object) => {
    return { client: connect(options), close: () => undefined, replicas: 0 }
  }
  redisClientContract('replies in base64', () => connected(raw), false)
  redisClientContract('plain replies', () => connected({ ...raw, responseEncoding: false }), false)

  describe('with the options of the recipe', () => {
    storeContract((clock) =>
      redisStore(connect(), { prefix: newPrefix(), clock, timeoutMs: PATIENCE_MS }),
    )

    it('admits exactly the limit of many at once', async () => {
      expect(
        await admitted(redisStore(connect(), { prefix: newPrefix(), timeoutMs: PATIENCE_MS })),
      ).toBe(50)
    })

    it('is taken as it is by the types', () => {
      expectTypeOf<Redis>().toExtend<ScriptClient>()
    })

    it('decides as declared, and reports why, if the token is wrong', async () => {
      const store = redisStore(connect({ token: 'wrong' }), {
        prefix: newPrefix(),
        timeoutMs: PATIENCE_MS,
      })
      const misconfigured: string[] = []
      const limiter = createLimiter({
        ...{ limit: tokenBucket({ limit: 1, per: '1h' }), store, ...patient },
        observer: (event) =>
          void (event.type === 'misconfigured' && misconfigured.push(event.error.message)),
      })
      const { allowed, degraded } = await limiter.check('ada')
      await limiter.close()
      expect([allowed, degraded?.reason]).toEqual([false, 'store-error'])
      expect(misconfigured[0]).toMatch(/^Redis: WRONGPASS invalid or missing auth token/)
    })

    it('cannot wait for replicas', () => {
      const replicated = () => redisStore(connect(), { durability: 'replicated' })
      expect(replicated).toThrow(/^redisStore\.durability: got "replicated", allowed: memory/)
    })
  })
})

// GLIDE is a native module, which not every platform has.
describe.skipIf(glide === undefined)('@valkey/valkey-glide', () => {
  const connections: { close(): void }[] = []
  afterAll(() => {
    for (const connection of connections) connection.close()
  })

  async function single() {
    const { Batch, GlideClient, Logger } = glide as NonNullable<typeof glide>
    Logger.init('off')
    const { host, port } = server
    const client = await GlideClient.createClient({ addresses: [{ host, port }] })
    connections.push(client)
    const run = (command: string) => (script: string, keys: string[], args: string[]) =>
      client.customCommand([command, script, String(keys.length), ...keys, ...args])
    const pipelined = async (commands: string[][]) => {
      const batch = new Batch(false)
      for (const command of commands) batch.customCommand(command)
      return (await client.exec(batch, true)) ?? []
    }
    return { evalsha: run('EVALSHA'), eval: run('EVAL'), pipelined } satisfies ScriptClient
  }

  async function clustered() {
    const { GlideClusterClient, Logger } = glide as NonNullable<typeof glide>
    Logger.init('off')
    const addresses = cluster.addresses.map(({ host, port }) => ({ host, port }))
    const client = await GlideClusterClient.createClient({ addresses })
    connections.push(client)
    const run = (command: string) => (script: string, keys: string[], args: string[]) =>
      client.customCommand([command, script, String(keys.length), ...keys, ...args])
    return { evalsha: run('EVALSHA'), eval: run('EVAL'), isCluster: true } satisfies ScriptClient
  }

  const close = () => undefined
  redisClientContract('one server', async () => ({ client: await single(), close, replicas: 0 }))
  const onCluster = async () => ({ client: await clustered(), close, replicas: 0 })
  redisClientContract('cluster', onCluster, false)

  describe('one server', () => {
    let client: ScriptClient
    beforeAll(async () => {
      client = await single()
    })

    storeContract((clock) =>
      redisStore(client, { prefix: newPrefix(), clock, timeoutMs: PATIENCE_MS }),
    )

    it('admits exactly the limit of many at once', async () => {
      expect(
        await admitted(redisStore(client, { prefix: newPrefix(), timeoutMs: PATIENCE_MS })),
      ).toBe(50)
    })

    it('decides by the server after its scripts were dropped', async () => {
      const store = redisStore(client, { prefix: newPrefix(), timeoutMs: PATIENCE_MS })
      const limiter = createLimiter({
        limit: tokenBucket({ limit: 2, per: '1h' }),
        store,
        ...patient,
      })
      const first = await limiter.check('ada')
      await server.command('SCRIPT', 'FLUSH')
      const second = await limiter.check('ada')
      await limiter.close()
      expect([first, second].map(({ remaining, degraded }) => [remaining, degraded])).toEqual([
        [1, null],
        [0, null],
      ])
    })
  })

  describe('cluster', () => {
    it('admits exactly the limit of many at once, on several nodes', async () => {
      const store = redisStore(await clustered(), { prefix: newPrefix(), timeoutMs: PATIENCE_MS })
      const limit = slidingWindow({ limit: 5, per: '30d' })
      const limiter = createLimiter({ limit, store, ...patient })
      const keys = Array.from({ length: 20 }, (_, at) => `user ${at}`)
      const checks = keys.flatMap((key) => Array.from({ length: 8 }, () => limiter.check(key)))
      const decisions = await Promise.all(checks)
      await limiter.close()
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(5 * keys.length)
    })
  })
})

const patient = { ...bounds, onStoreError: 'closed' } as const

/** The number of admitted calls of 80 at once, with a limit of 50. */
async function admitted(store: Store): Promise<number> {
  const limiter = createLimiter({
    limit: tokenBucket({ limit: 50, per: '30d' }),
    store,
    ...patient,
  })
  const decisions = await Promise.all(Array.from({ length: 80 }, () => limiter.check('ada')))
  await limiter.close()
  return decisions.filter(({ allowed }) => allowed).length
}

let prefixes = 0

function newPrefix(): string {
  prefixes++
  return `tg${prefixes}`
}
