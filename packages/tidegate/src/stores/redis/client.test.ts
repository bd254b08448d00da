import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type ConnectedClient,
  redisClientKinds,
} from '../../../../../test/support/servers/clients.ts'
import { type RedisCluster, startCluster } from '../../../../../test/support/servers/cluster.ts'
import { startRedis } from '../../../../../test/support/servers/redis.ts'
import { startSentinel } from '../../../../../test/support/servers/sentinel.ts'
import { TidegateError } from '../../errors.ts'
import { type RedisCaller, type RedisClient, redisCaller } from './client.ts'
import { newKey, newScript, redisClientContract } from './client-contract.ts'

/**
 * What a limiter may do and nothing else: its own keys, and the commands of its scripts. INFO is
 * what ioredis asks for when it connects; without it, ioredis prints a warning and goes on.
 */
const limiterAcl = [
  'user limiter on >secret resetkeys ~tg* resetchannels -@all',
  '+evalsha +eval +wait +info',
  '+get +set +setrange +getrange +strlen +del +pexpireat +pttl +time',
].join(' ')

const limiterUser = { username: 'limiter', password: 'secret' }

let servers: Awaited<ReturnType<typeof startServers>>

beforeAll(async () => {
  servers = await startServers()
})

afterAll(async () => {
  await Promise.all(Object.values(servers ?? {}).map((server) => server.stop()))
})

describe.each(redisClientKinds)('$name', (kind) => {
  const { pool } = kind

  redisClientContract('standalone', () => withReplicas(0, kind.single(servers.standalone)))
  redisClientContract('password', () => withReplicas(0, kind.single(servers.withPassword)))
  redisClientContract('TLS', () => withReplicas(0, kind.single(servers.withTls)))
  redisClientContract('ACL', () =>
    withReplicas(0, kind.single({ ...servers.withAcl, ...limiterUser })),
  )
  redisClientContract('cluster', () => withReplicas(1, kind.cluster(servers.cluster)))
  redisClientContract('Sentinel', () => withReplicas(2, kind.sentinel(servers.sentinel)))
  if (pool) redisClientContract('pool', () => withReplicas(0, pool(servers.standalone)))

  it('may not touch other keys or run other commands under the ACL of a limiter', async () => {
    const limiter = kind.single({ ...servers.withAcl, ...limiterUser })
    await withCaller(limiter, async (caller) => {
      const otherKey = caller.eval("return redis.call('GET', KEYS[1])", ['other'], [])
      await expect(otherKey).rejects.toThrow(/^NOPERM /)
      const otherCommand = caller.eval("return redis.call('INCR', KEYS[1])", [newKey()], [])
      await expect(otherCommand).rejects.toThrow(/NOPERM|can't run this command/)
    })
  })

  it('runs scripts on the master that the Sentinels name', async () => {
    await withCaller(kind.sentinel(servers.sentinel), async (caller) => {
      const key = newKey()
      await caller.eval("return redis.call('SET', KEYS[1], 'here')", [key], [])
      const master = await servers.sentinel.master()
      expect(await master.command('GET', key)).toBe('here')
    })
  })
})

describe.each(redisClientKinds)('$name on a cluster', (kind) => {
  it('knows a cluster from a single server', async () => {
    await withCaller(kind.cluster(servers.cluster), async (caller) => {
      expect(caller.isCluster).toBe(true)
    })
    for (const single of [kind.single(servers.standalone), kind.sentinel(servers.sentinel)]) {
      await withCaller(single, async (caller) => expect(caller.isCluster).toBe(false))
    }
  })

  it('sends every call to the node of its key', async () => {
    const { cluster } = servers
    await withCaller(kind.cluster(cluster), async (caller) => {
      for (const master of cluster.masters) {
        const key = await keyOn(cluster, master.id)
        await caller.eval("return redis.call('SET', KEYS[1], 'here')", [key], [])
        expect(await master.command('GET', key)).toBe('here')
      }
    })
  })

  it('knows a script only on the node where it was loaded', async () => {
    const { cluster } = servers
    await withCaller(kind.cluster(cluster), async (caller) => {
      const [one = '', other = ''] = await keysOnEachMaster(cluster)
      const { text, sha1 } = newScript('return 1')
      await caller.eval(text, [one], [])
      expect(await caller.evalsha(sha1, [one], [])).toBe(1)
      await expect(caller.evalsha(sha1, [other], [])).rejects.toThrow(/^NOSCRIPT /)
    })
  })

  it('rejects keys of different nodes, and does not take them for an outage', async () => {
    await withCaller(kind.cluster(servers.cluster), async (caller) => {
      const keys = await keysOnEachMaster(servers.cluster)
      await expect(caller.eval('return 1', keys, [])).rejects.toThrow(/^CROSSSLOT /)
    })
  })

  it('follows a slot that has moved, and then no replica has confirmed', async () => {
    const { cluster } = servers
    await withCaller(kind.cluster(cluster), async (caller) => {
      const [from, to] = cluster.masters
      if (from === undefined || to === undefined) throw new Error('the cluster has two masters')
      const { text, sha1 } = newScript("redis.call('SET', KEYS[1], '1') return 5")
      await Promise.all(
        (await keysOnEachMaster(cluster)).map((anywhere) => caller.eval(text, [anywhere], [])),
      )
      const key = await keyOfEmptySlot(cluster, from)
      const slot = await cluster.slotOf(key)
      for (const node of [to, from]) await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
      const first = await caller.evalshaAndWait(sha1, [key], [], 1, 10_000)
      expect(first).toEqual({ reply: 5, confirmed: 0 })
      expect(await to.command('GET', key)).toBe('1')
    })
  })
})

describe('redisCaller', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'redis://127.0.0.1'],
    ['options', { host: '127.0.0.1', port: 6379 }],
    ['a client of another shape', { evalSha() {}, eval() {} }],
  ])('refuses %s and names what is allowed', (_what, client) => {
    const refused = () => redisCaller(client as unknown as RedisClient)
    expect(refused).toThrow(TidegateError)
    expect(refused).toThrow(/^client: got .*, allowed: a client of ioredis or of redis/)
    expect(refused).toThrow(expect.objectContaining({ code: 'invalid-option' }))
  })

  it.each(['options', 'redisOptions'])('refuses stringNumbers of ioredis in its %s', (place) => {
    const numbers = { stringNumbers: true }
    const options = place === 'options' ? numbers : { redisOptions: numbers }
    const client = { options, isCluster: false, evalsha() {}, eval() {}, pipeline() {} }
    const refused = () => redisCaller(client as unknown as RedisClient)
    expect(refused).toThrow(/^client\.options(\.redisOptions)?\.stringNumbers: got true/)
  })

  it('reports a client that calls back at its first use', () => {
    const caller = redisCaller({ evalsha() {}, eval() {} } as unknown as RedisClient)
    for (const run of [caller.evalsha, caller.eval]) {
      expect(() => run('script', ['key'], [])).toThrow(
        /^evalsha and eval of the client must return a promise/,
      )
    }
  })

  it('is not misled by a type mapping of node-redis', async () => {
    const { createClient, RESP_TYPES } = await import('redis')
    const { host, port } = servers.standalone
    const typeMapping = { [RESP_TYPES.NUMBER]: String, [RESP_TYPES.BLOB_STRING]: Buffer }
    const client = createClient({ socket: { host, port }, commandOptions: { typeMapping } })
    await client.connect()
    const connected = Promise.resolve({ client, close: () => client.destroy() })
    await withCaller(connected, async (caller) => {
      const { text, sha1 } = newScript("return { 1, 'two' }")
      expect(await caller.eval(text, [newKey()], [])).toEqual([1, 'two'])
      const answer = await caller.evalshaAndWait(sha1, [newKey()], [], 0, 1)
      expect(answer).toEqual({ reply: [1, 'two'], confirmed: 0 })
    })
  })
})

async function startServers() {
  const [standalone, withPassword, withTls, withAcl, cluster, sentinel] = await Promise.all([
    startRedis(),
    startRedis({ password: 'a pass: word' }),
    startRedis({ tls: true }),
    startRedis({ acl: [limiterAcl] }),
    startCluster({ masters: 3, replicasPerMaster: 1 }),
    startSentinel({ replicas: 2, sentinels: 1 }),
  ])
  return { standalone, withPassword, withTls, withAcl, cluster, sentinel }
}

async function withReplicas(replicas: number, connected: Promise<ConnectedClient>) {
  return { ...(await connected), replicas }
}

async function withCaller(
  connected: Promise<ConnectedClient>,
  use: (caller: RedisCaller) => Promise<void>,
): Promise<void> {
  const { client, close } = await connected
  try {
    await use(redisCaller(client))
  } finally {
    close()
  }
}

function keysOnEachMaster(cluster: RedisCluster): Promise<string[]> {
  return Promise.all(cluster.masters.map(({ id }) => keyOn(cluster, id)))
}

/** Tries keys at random; with three masters every third one will do. */
/** A slot that holds keys of other tests cannot be given away. */
async function keyOfEmptySlot(
  cluster: RedisCluster,
  node: RedisCluster['masters'][number],
): Promise<string> {
  for (;;) {
    const key = await keyOn(cluster, node.id)
    const count = await node.command('CLUSTER', 'COUNTKEYSINSLOT', await cluster.slotOf(key))
    if (count === 0) return key
  }
}

async function keyOn(cluster: RedisCluster, id: string): Promise<string> {
  for (;;) {
    const key = newKey()
    if ((await cluster.masterOf(key)).id === id) return key
  }
}
