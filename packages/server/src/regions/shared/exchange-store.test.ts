/** The exchange in a real Redis: the lead, reports and messages, and rows for the next one. */

import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../test/support/servers/redis.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { ExchangeStore, type Lead } from './exchange-store.ts'

let server: RedisServer
let client: Redis

beforeAll(async () => {
  server = await startRedis()
  client = new Redis(server.port, server.host)
})

afterAll(async () => {
  client?.disconnect()
  await server?.stop()
})

let scopes = 0

function newStore() {
  const scope = `scope${scopes++}`
  const store = new ExchangeStore((script, keys, args) => {
    const names = keys.map((key) => `tg:{x}:${key}`)
    return client.eval(script, names.length, ...names, ...args)
  }, scope)
  return { store, key: (name: string) => `tg:{x}:${scope}:${name}` }
}

async function leadOf(store: ExchangeStore, id: string, isNew = true): Promise<Lead> {
  const lead = await store.lead(id, isNew)
  if (lead === undefined) throw new Error(`${id} does not lead`)
  return lead
}

async function all<T>(found: AsyncIterable<T>): Promise<readonly T[]> {
  const rows: T[] = []
  for await (const one of found) rows.push(one)
  return rows
}

describe('the lead of a region', () => {
  test('belongs to one process until it ends, and has a higher term each time', async () => {
    const { store, key } = newStore()
    const first = await leadOf(store, 'a')
    expect(await store.lead('b', true)).toBeUndefined()
    expect(await store.lead('a', false)).toEqual(first)
    expect(await client.pttl(key('leader'))).toBeGreaterThan(0)
    await store.resign('b')
    expect(await store.lead('b', true)).toBeUndefined()
    await store.resign('a')
    const second = await leadOf(store, 'b')
    expect(second.term).toBeGreaterThan(first.term)
    expect(second.incarnation).toBe(first.incarnation)
    const again = await leadOf(store, 'b')
    expect(again.term).toBeGreaterThan(second.term)
  })

  test('has another incarnation after the store has lost its data, and no lower term', async () => {
    const { store, key } = newStore()
    const before = await leadOf(store, 'a')
    await client.del(key('leader'), key('term'), key('incarnation'))
    const after = await until('the clock of the store has moved', async () => {
      const lead = await leadOf(store, 'a')
      if (lead.incarnation !== before.incarnation) return lead
      await client.del(key('incarnation'))
      return undefined
    })
    expect(after.incarnation > before.incarnation).toBe(true)
    expect(after.term).toBeGreaterThanOrEqual(before.term)
  })
})

describe('reports and messages', () => {
  test('are taken once, with the time of the store, by the process that leads', async () => {
    const { store } = newStore()
    const old = await leadOf(store, 'a')
    const lead = await leadOf(store, 'a')
    await store.report(Buffer.from('units'))
    await store.post('us', Buffer.from([0, 255]))
    expect(await store.take(old)).toBeUndefined()
    const taken = await store.take(lead)
    expect(taken?.reports.map(({ body }) => body)).toEqual([
      Buffer.from('units').toString('base64'),
    ])
    expect(taken?.messages.map(({ body }) => body)).toEqual(['us AP8='])
    expect(taken?.reports[0]?.storeMs).toBeLessThanOrEqual(taken?.storeMs ?? 0)
    expect(await store.take(lead)).toMatchObject({ reports: [], messages: [] })
  })

  test('are refused if too many wait, and end by themselves', async () => {
    const { store, key } = newStore()
    await Promise.all(Array.from({ length: 256 }, () => store.report(Buffer.from('a'))))
    await expect(store.report(Buffer.from('a'))).rejects.toThrow('256 reports wait')
    expect(await client.pttl(key('reports'))).toBeGreaterThan(0)
  })

  test('are not taken after the store has lost its data', async () => {
    const { store, key } = newStore()
    const lead = await leadOf(store, 'a')
    await client.del(key('incarnation'))
    expect(await store.take(lead)).toBeUndefined()
  })
})

describe('rows', () => {
  test('are found by the next one with their last text, and end by themselves', async () => {
    const { store, key } = newStore()
    const lead = await leadOf(store, 'a')
    const rows = Array.from({ length: 600 }, (_, at) => ({ id: `g:${at}`, text: `old ${at}` }))
    expect(await store.save(lead, rows, 60_000)).toBe(true)
    expect(await store.save(lead, [{ id: 'g:7', text: 'new' }], 60_000)).toBe(true)
    const found = await all(store.load())
    expect(found).toHaveLength(600)
    expect(found.find(({ id }) => id === 'g:7')?.text).toBe('new')
    expect(await client.pttl(key('row:g:7'))).toBeGreaterThan(0)
    expect(await client.pttl(key('rows'))).toBeGreaterThan(0)
  })

  test('of a replaced exchanger are refused', async () => {
    const { store } = newStore()
    const old = await leadOf(store, 'a')
    const next = await leadOf(store, 'a')
    expect(await store.save(old, [{ id: 'g:1', text: 'old' }], 60_000)).toBe(false)
    expect(await store.save(next, [{ id: 'g:1', text: 'next' }], 60_000)).toBe(true)
    expect(await all(store.load())).toEqual([{ id: 'g:1', text: 'next' }])
  })

  test('that have expired are not found', async () => {
    const { store, key } = newStore()
    const lead = await leadOf(store, 'a')
    await store.save(lead, [{ id: 'g:1', text: 'short' }], 1)
    await until('the row has expired', async () => (await client.exists(key('row:g:1'))) === 0)
    expect(await all(store.load())).toEqual([])
  })
})
