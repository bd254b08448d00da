import { Redis } from 'ioredis'
import { type Charge, concurrency, frontStore, memoryStore, type Store } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startRedis } from '../../../../../test/support/servers/redis.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { OpenSlots, openSlots, release } from './open-slots.ts'

const TTL_MS = 1_500

/** Slots are renewed more often than this. */
const STALL_MS_MIN = 300

function charges(count: number, limit = 1_000, ttlMs = TTL_MS): Charge[] {
  const rule = concurrency({ limit, ttl: `${ttlMs}ms` })
  return Array.from({ length: count }, (_, at) => {
    const hold = { id: `slot ${at}`, ttlMs }
    return { name: 'inFlight', key: 'key', limit: rule, cost: 1, hold }
  })
}

async function left(store: Store, [first]: Charge[]): Promise<number | undefined> {
  if (first === undefined) return undefined
  const { name, key, limit } = first
  const [decision] = await store.charge([{ name, key, limit, cost: 0 }], 'peek')
  return decision?.remaining
}

/**
 * Real time passes: what is renewed is still held after several times of a slot. A look after a
 * stall of this process comes before the renewals that are late, and does not count.
 */
async function passes(ms: number, holds: () => Promise<void>): Promise<void> {
  const endMs = performance.now() + ms
  let lastMs = performance.now()
  await until('the time is over', async () => {
    const sinceMs = performance.now() - lastMs
    lastMs = performance.now()
    if (sinceMs > STALL_MS_MIN) return false
    await holds()
    return performance.now() > endMs
  })
}

describe('open slots', () => {
  it('are renewed in batches until they are removed', async () => {
    const memory = memoryStore()
    const sizes: number[] = []
    const counted: Store = {
      ...memory,
      isRemote: false,
      charge: (group, mode) => memory.charge(group, mode),
      chargeOne: (counter, cost) => memory.chargeOne(counter, cost),
      reset: (group) => memory.reset(group),
      close: () => memory.close(),
      adjust: (group) => {
        sizes.push(group.length)
        return memory.adjust(group)
      },
    }
    const slots = new OpenSlots(counted)
    const all = charges(200, 1_000, 5_000)
    for (const charge of all) memory.charge([charge], 'all')
    const open = all.map((charge) => slots.add(charge, true))
    await until('all of them were renewed', () => sizes.length >= 4)
    expect(sizes.slice(0, 4)).toEqual([64, 64, 64, 8])
    for (const slot of open) if (slot !== undefined) slots.remove(slot)
    expect(await left(memory, all)).toBe(800)
  })

  it('stay held for longer than their time, and are free after it when removed', async () => {
    const store = memoryStore()
    const slots = openSlots(store)
    const all = charges(3)
    store.charge([all[0] as Charge], 'all')
    const slot = slots.add(all[0] as Charge, true)
    let isLost = false
    await passes(3 * TTL_MS, async () => {
      isLost ||= (await left(store, all)) !== 999
    })
    expect(isLost).toBe(false)
    if (slot !== undefined) slots.remove(slot)
    await until('it is free', async () => (await left(store, all)) === 1_000)
  })

  it('are taken again when the store has forgotten them, and never from another', async () => {
    const server = await startRedis()
    const client = new Redis(server.url)
    onTestFinished(async () => {
      client.disconnect()
      await server.stop()
    })
    const store = frontStore(redisStore(client), {})
    const slots = openSlots(store)
    const [own, other] = charges(2, 1, 1_000) as [Charge, Charge]
    await store.charge([own], 'all')
    const slot = slots.add(own, true)
    await server.restart()
    await until('the slot is held again', async () => (await left(store, [own])) === 0)
    await until('another has the slot', async () => {
      await store.adjust([release(own)])
      const [decision] = await store.charge([other], 'all')
      return decision?.allowed === true && decision.degraded === null
    })
    const otherHolds = openSlots(store).add(other, true)
    await passes(2_000, async () => {
      const [decision] = await store.adjust([{ ...other, units: 0 }])
      expect(decision?.remaining).toBe(0)
    })
    for (const one of [slot, otherHolds]) if (one !== undefined) slots.remove(one)
    await store.adjust([release(other)])
    await until('it is free', async () => (await left(store, [own])) === 1)
  })
})
