/** Connections that break, hang, or lead to the wrong server. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Store } from '../../packages/tidegate/src/stores/store.ts'
import { whilePaused } from '../support/faults/pause.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  type ConnectedClient,
  patientClientKinds,
  type RedisClientKind,
  recommendedClientKinds,
  redisClientKinds,
} from '../support/servers/clients.ts'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { type Relay, startRelay } from './relay.ts'
import { remaining } from './traffic.ts'

const LIMIT = 1000

const counter = { name: 'limit', key: 'ada', limit: tokenBucket({ limit: LIMIT, per: '365d' }) }

/** The timeout of requests without an answer, shorter than the clients' own timeouts. */
const TIMEOUT_MS = 300

const CHARGES = 20

let server: RedisServer
let relay: Relay
let connections: ConnectedClient[] = []

beforeEach(async () => {
  server = await startRedis()
  relay = await startRelay(server.port)
})

afterEach(async () => {
  for (const { close } of connections) close()
  connections = []
  await relay?.stop()
  await server?.stop()
})

describe('when the connection breaks after the server has charged', () => {
  it.each(patientClientKinds)('$name fails, and it is counted once', async (kind) => {
    const store = await storeOn(kind)
    expect(await charge(store)).toBe(true)
    relay.loseNextReply()
    await expect(charge(store)).rejects.toMatchObject({ code: 'store-unreachable' })
    const left = await until('it works again', () => remaining(store, [counter]))
    expect(left).toEqual([LIMIT - 2])
    expect(await charge(store)).toBe(true)
    expect(await remaining(store, [counter])).toEqual([LIMIT - 3])
  })

  const ioredis = redisClientKinds.filter(({ name }) => name.startsWith('ioredis'))

  it.each(ioredis)('$name with its default options sends it again', async (kind) => {
    const store = await storeOn(kind)
    expect(await charge(store)).toBe(true)
    relay.loseNextReply()
    expect(await charge(store)).toBe(true)
    expect(await remaining(store, [counter])).toEqual([LIMIT - 3])
  })
})

describe('when the server hangs', () => {
  const kinds = [
    ...redisClientKinds.map((kind) => ({ ...kind, options: 'its default options' })),
    ...recommendedClientKinds.map((kind) => ({ ...kind, options: 'the recommended options' })),
  ]

  it.each(kinds)('$name with $options is aborted in time', async (kind) => {
    const { client } = await connect(kind)
    const store = redisStore(client, { timeoutMs: PATIENCE_MS })
    const hurried = redisStore(client, { timeoutMs: TIMEOUT_MS })
    await until('it works', () => remaining(store, [counter]))
    const outcomes = await whilePaused(server, () =>
      Promise.allSettled(Array.from({ length: CHARGES }, () => charge(hurried))),
    )
    const codes = outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason.code)
    expect(codes).toEqual(outcomes.map(() => 'store-timeout'))
    const [left = 0] = await until('it works again', () => remaining(store, [counter]))
    expect(left).toBeGreaterThanOrEqual(LIMIT - CHARGES)
  })
})

describe('when the address leads to another server, and the old one is a replica', () => {
  it.each(patientClientKinds)('$name continues with the new one', async (kind) => {
    const store = await storeOn(kind)
    expect(await charge(store)).toBe(true)
    const next = await startRedis()
    try {
      relay.leadTo(next.port)
      await server.command('REPLICAOF', next.host, next.port)
      await expect(charge(store)).rejects.toMatchObject({ code: 'store-failed' })
      await until('it continues', () => charge(store))
      const keys = await next.command('KEYS', '*')
      expect(keys).toHaveLength(1)
    } finally {
      await next.stop()
    }
  })
})

async function connect(kind: RedisClientKind): Promise<ConnectedClient> {
  const connection = await kind.single(relay)
  connections.push(connection)
  return connection
}

async function storeOn(kind: RedisClientKind): Promise<Store> {
  return redisStore((await connect(kind)).client, { timeoutMs: PATIENCE_MS })
}

async function charge(store: Store): Promise<boolean> {
  const decisions = await store.charge([{ ...counter, cost: 1 }], 'all')
  return decisions.every(({ allowed }) => allowed)
}
