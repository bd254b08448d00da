import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisKey } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { redisClientKinds } from '../servers/clients.ts'
import { type RedisCluster, type RedisClusterNode, startCluster } from '../servers/cluster.ts'
import { until } from '../servers/until.ts'

const LIMIT = 1000

const keys = Array.from({ length: 30 }, (_, at) => `client ${at}`)

const exactly = Object.fromEntries(keys.map((key) => [key, LIMIT]))

/** Callers at once per client. */
const CALLERS = 4

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await startCluster({ masters: 3, replicasPerMaster: 1 })
})

afterAll(() => cluster?.stop())

describe('with every client at once', () => {
  it('decisions are exact and none fails while slots move to other nodes', async () => {
    const { admitted, failures } = await decideDuring('slots', async () => {
      for (const key of keys) await moveSlot(redisKey('slots', `tokenBucket\0default\0${key}`))
    })
    expect({ admitted, failures }).toEqual({ admitted: exactly, failures: [] })
  })

  it('nobody has more than the limit, or less without a failure, at a takeover', async () => {
    const { admitted, failures } = await decideDuring('roles', async () => {
      for (const replica of cluster.replicas) await promote(replica)
    })
    const missing = Object.values(admitted).map((count) => LIMIT - count)
    expect(Math.min(...missing)).toBeGreaterThanOrEqual(0)
    // Until all agree who the master is, nodes refuse (CLUSTERDOWN), and node-redis drops commands
    // of the connections that it gives up. What was dropped may have been counted, once.
    const known = failures.filter((failure) => /CLUSTERDOWN|Disconnects client/.test(failure))
    expect(failures).toEqual(known)
    const dropped = failures.filter((failure) => failure.includes('Disconnects client'))
    const sum = missing.reduce((total, count) => total + count, 0)
    expect(sum).toBeLessThanOrEqual(dropped.length)
  })
})

/** All clients ask for all keys until the change is over, and then until there is nothing left. */
async function decideDuring(prefix: string, change: () => Promise<void>) {
  const clients = await Promise.all(redisClientKinds.map((kind) => kind.cluster(cluster)))
  // Over so long a period that no unit comes back while the test runs.
  const limit = tokenBucket({ limit: LIMIT, per: '365d' })
  const admitted = Object.fromEntries(keys.map((key) => [key, 0]))
  const failures: string[] = []
  const asks = clients.map(({ client }, at) => {
    const limiter = createLimiter({ limit, store: redisStore(client, { prefix }) })
    return async (key: string) => {
      try {
        if ((await limiter.check(key)).allowed) admitted[key] = (admitted[key] ?? 0) + 1
      } catch (error) {
        failures.push(`${redisClientKinds[at]?.name}: ${error}`)
      }
    }
  })
  let isChanging = true
  const callers = asks.flatMap((ask) =>
    Array.from({ length: CALLERS }, async (_, caller) => {
      for (let at = caller; isChanging; at++) await ask(keys[at % keys.length] ?? '')
    }),
  )
  await change().finally(() => {
    isChanging = false
  })
  await Promise.all(callers)
  await cluster.untilOk()
  const share = Math.ceil((LIMIT + 1) / asks.length)
  for (const key of keys) {
    await Promise.all(asks.flatMap((ask) => Array.from({ length: share }, () => ask(key))))
  }
  for (const { close } of clients) close()
  return { admitted, failures }
}

/** To another master, in the steps of `redis-cli --cluster reshard`. */
async function moveSlot(key: string): Promise<void> {
  const slot = await cluster.slotOf(key)
  const from = await cluster.masterOf(key)
  const to = (await nodesThatAre('master')).find(({ id }) => id !== from.id)
  if (to === undefined) throw new Error('there is no other master')
  await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
  await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
  for (;;) {
    const found = await from.command('CLUSTER', 'GETKEYSINSLOT', slot, 100)
    const names = Array.isArray(found) ? found.map(String) : []
    if (names.length === 0) break
    await from.command('MIGRATE', to.host, to.port, '', 0, 5000, 'KEYS', ...names)
  }
  for (const node of [to, from]) await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
}

/** As an operator does it before maintenance: the master hands over all that it has. */
async function promote(replica: RedisClusterNode): Promise<void> {
  await until('the master is known', async () => await replica.command('CLUSTER', 'FAILOVER'))
  await until('the replica is the master', async () => (await roleOf(replica)) === 'master')
}

async function nodesThatAre(role: 'master' | 'slave'): Promise<RedisClusterNode[]> {
  const roles = await Promise.all(cluster.nodes.map(roleOf))
  return cluster.nodes.filter((_, at) => roles[at] === role)
}

async function roleOf(node: RedisClusterNode): Promise<unknown> {
  const role = await node.command('ROLE')
  return Array.isArray(role) ? role[0] : undefined
}
