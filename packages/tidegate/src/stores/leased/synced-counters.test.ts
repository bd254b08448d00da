import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { fixedWindow } from '../../policy/limits.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { Store } from '../store.ts'
import { LeasedStore } from './leased-store.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_700_000_000_000 })
})

afterEach(() => {
  vi.useRealTimers()
})

const limit = fixedWindow({ limit: 1_000, per: '1h', accuracy: 'synced' })

/** A process, and how often it has asked the store. */
function newNode(memory: Store) {
  let calls = 0
  const charge: Store['charge'] = async (group, mode) => {
    calls++
    return memory.charge(group, mode)
  }
  const store: Store = {
    isRemote: true,
    charge,
    adjust: async (group) => {
      calls++
      return memory.adjust(group)
    },
    reset: async (group) => memory.reset(group),
    close: () => undefined,
    charger: (name, own) => async (key, cost) => {
      const [decision] = await charge([{ name, limit: own, key, cost }], 'all')
      return decision as NonNullable<typeof decision>
    },
  }
  const leased = new LeasedStore(store, undefined)
  return { check: leased.charger('limit', limit), leased, calls: () => calls }
}

it('counts here, and tells the store ten times a second', async () => {
  const memory = memoryStore()
  const node = newNode(memory)
  for (let call = 0; call < 500; call++) await node.check('key', 1)
  expect(node.calls()).toBe(1)
  await vi.advanceTimersByTimeAsync(100)
  expect(node.calls()).toBe(2)
  const [look] = memory.charge([{ name: 'limit', limit, key: 'key', cost: 0 }], 'peek')
  expect(look?.remaining).toBe(500)
})

it('exceeds the limit by no more than what came between two reports', async () => {
  const memory = memoryStore()
  const nodes = [newNode(memory), newNode(memory)]
  let admitted = 0
  for (let tenth = 0; tenth < 20; tenth++) {
    for (const { check } of nodes) {
      for (let call = 0; call < 60; call++) if ((await check('key', 1)).allowed) admitted++
    }
    await vi.advanceTimersByTimeAsync(100)
  }
  expect(admitted).toBeGreaterThanOrEqual(1_000)
  expect(admitted).toBeLessThanOrEqual(1_000 + 60)
})

it('tells what is left to tell when it is closed', async () => {
  const memory = memoryStore()
  const node = newNode(memory)
  for (let call = 0; call < 10; call++) await node.check('key', 1)
  await node.leased.close()
  const [look] = memory.charge([{ name: 'limit', limit, key: 'key', cost: 0 }], 'peek')
  expect(look?.remaining).toBe(990)
})
