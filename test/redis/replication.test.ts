/** `durability: 'replicated'` on a master with two replicas. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fixedWindow, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Store } from '../../packages/tidegate/src/stores/store.ts'
import { whilePaused } from '../support/faults/pause.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type ConnectedClient, patientClientKinds } from '../support/servers/clients.ts'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'

/** A limit of two units. */
const bucket = tokenBucket({ limit: 2, per: '365d' })
const window = fixedWindow({ limit: 2, per: '30d' })

const REPLICAS = 2

/** Replicas that run confirm within milliseconds, unless the machine is very busy. */
const REPLICAS_TIMEOUT_MS = PATIENCE_MS / 2

/** The timeout for replicas that do not run. */
const REPLICAS_TIMEOUT_SHORT_MS = 20

const unconfirmed = { reason: 'unconfirmed', mode: 'open' }

let master: RedisServer
let replicas: RedisServer[] = []

beforeAll(async () => {
  const starting = Array.from({ length: REPLICAS }, () => startRedis())
  master = await startRedis()
  replicas = await Promise.all(starting)
  for (const replica of replicas) await replica.command('REPLICAOF', master.host, master.port)
  await until('replicas are in step', async () => {
    const info = String(await master.command('INFO', 'replication'))
    return info.match(/state=online/g)?.length === REPLICAS
  })
})

afterAll(() => Promise.all([master, ...replicas].map((server) => server?.stop())))

describe.each(patientClientKinds)('with $name', (kind) => {
  let connection: ConnectedClient

  beforeAll(async () => {
    connection = await kind.single(master)
  })

  afterAll(() => connection?.close())

  const storeThatWaits = (replicasTimeoutMs: number): Store =>
    redisStore(connection.client, {
      prefix: kind.name.replace(' ', '-'),
      durability: 'replicated',
      replicas: REPLICAS,
      replicasTimeoutMs,
      timeoutMs: PATIENCE_MS,
    })

  it('a decision that the replicas have is as any other', async () => {
    const store = storeThatWaits(REPLICAS_TIMEOUT_MS)
    expect(await charge(store, 'confirmed')).toMatchObject([
      { allowed: true, remaining: 1, degraded: null },
      { allowed: true, remaining: 1, degraded: null },
    ])
  })

  it('it also waits if the server did not know the script', async () => {
    const store = storeThatWaits(REPLICAS_TIMEOUT_MS)
    await master.command('SCRIPT', 'FLUSH')
    const before = await waits()
    const decisions = await charge(store, 'flushed')
    expect(decisions).toMatchObject([{ degraded: null }, { degraded: null }])
    // One after the rejected script, one after the executed script.
    expect((await waits()) - before).toBe(2)
  })

  it('allowed without a replica is marked, and denied is not', async () => {
    // One store for each: a store without a confirmation for a second renews the connection.
    const charged = () => chargeOne(storeThatWaits(REPLICAS_TIMEOUT_SHORT_MS), 'stopped')
    await whilePaused(replicas[0] as RedisServer, async () => {
      const allowed = [{ allowed: true, degraded: unconfirmed }]
      expect(await charged()).toMatchObject(allowed)
      await master.command('SCRIPT', 'FLUSH')
      expect(await charged()).toMatchObject(allowed)
      const denied = [{ allowed: false, degraded: null }]
      expect(await charged()).toMatchObject(denied)
    })
    const patient = storeThatWaits(REPLICAS_TIMEOUT_MS)
    expect(await chargeOne(patient, 'resumed')).toMatchObject([{ allowed: true, degraded: null }])
  })
})

async function charge(store: Store, key: string) {
  const group = [
    { name: 'first', key, limit: bucket, cost: 1 },
    { name: 'second', key, limit: window, cost: 1 },
  ]
  return await store.charge(group, 'all')
}

async function chargeOne(store: Store, key: string) {
  return await store.charge([{ name: 'one', key, limit: bucket, cost: 1 }], 'all')
}

async function waits(): Promise<number> {
  const stats = String(await master.command('INFO', 'commandstats'))
  return Number(/cmdstat_wait:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}
