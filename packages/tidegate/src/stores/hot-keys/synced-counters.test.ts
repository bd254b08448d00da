import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { fixedWindow } from '../../limits/limits.ts'
import { chargeOneAsGroup, chargeSingle } from '../charge-one.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { Store, StoreCapabilities } from '../store.ts'
import { LeasedStore } from './leased-store.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_700_000_000_000 })
})

afterEach(() => {
  vi.useRealTimers()
})

const limit = fixedWindow({ limit: 1_000, per: '1h', accuracy: 'synced' })

/** What a store does otherwise than the memory store. */
interface Part {
  readonly capabilities?: StoreCapabilities
  readonly onCharged?: () => Promise<void>
  /** Returns `overloaded` if the store was not asked. */
  readonly onAdjust?: () => Promise<unknown>
}

const numbers = { limit: 0, remaining: 0, retryAfterMs: 0, resetAfterMs: 0, granted: 0 }

const nothing = { allowed: true, ...numbers, source: 'fallback' as const }

/** A process, and how often it has asked the store. */
function newNode(memory: Store, { onCharged, onAdjust, ...part }: Part = {}) {
  let calls = 0
  const charge: Store['charge'] = async (group, mode) => {
    calls++
    const decisions = memory.charge(group, mode)
    await onCharged?.()
    return decisions
  }
  const store: Store = {
    isRemote: true,
    charge,
    chargeOne: chargeOneAsGroup,
    adjust: async (group) => {
      calls++
      const reason = await onAdjust?.()
      if (reason !== 'overloaded') return memory.adjust(group)
      const degraded = { reason: 'overloaded', mode: 'open' } as const
      return group.map(() => ({ ...nothing, degraded }))
    },
    reset: async (group) => memory.reset(group),
    close: () => undefined,
    ...part,
  }
  const leased = new LeasedStore(store, undefined)
  const check = (key: string, cost: number) =>
    chargeSingle(leased, { name: 'limit', limit, key }, cost)
  return { check, leased, calls: () => calls }
}

function leftOf(memory: Store, key: string) {
  const looks = memory.charge([{ name: 'limit', limit, key, cost: 0 }], 'peek')
  return looks instanceof Promise ? undefined : looks[0]?.remaining
}

async function checkAll(node: ReturnType<typeof newNode>, keys: readonly string[]) {
  for (const key of keys) await node.check(key, 1)
}

const keysTo = (count: number) => Array.from({ length: count }, (_, at) => `key ${at}`)

it('counts here, and tells the store ten times a second', async () => {
  const memory = memoryStore()
  const node = newNode(memory)
  for (let call = 0; call < 500; call++) await node.check('key', 1)
  expect(node.calls()).toBe(1)
  await vi.advanceTimersByTimeAsync(100)
  expect(node.calls()).toBe(2)
  expect(leftOf(memory, 'key')).toBe(500)
})

it('tells the store of calls behind a first answer that took longer than a report', async () => {
  const memory = memoryStore()
  const onCharged = () => new Promise<void>((resolve) => setTimeout(resolve, 250))
  const node = newNode(memory, { onCharged })
  const first = node.check('key', 1)
  await vi.advanceTimersByTimeAsync(250)
  await first
  for (let call = 0; call < 9; call++) await node.check('key', 1)
  expect(node.calls()).toBe(1)
  await vi.advanceTimersByTimeAsync(100)
  expect(leftOf(memory, 'key')).toBe(990)
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
  expect(leftOf(memory, 'key')).toBe(990)
})

it('tells of the keys that were asked for, many at a time', async () => {
  const memory = memoryStore()
  const node = newNode(memory)
  await checkAll(node, keysTo(1_000))
  await checkAll(node, keysTo(100))
  expect(node.calls()).toBe(1_000)
  await vi.advanceTimersByTimeAsync(100)
  expect(node.calls()).toBe(1_002)
  expect(keysTo(101).map((key) => leftOf(memory, key))).toEqual([...Array(100).fill(998), 999])
})

it('reports nothing of a key without calls', async () => {
  const node = newNode(memoryStore())
  await checkAll(node, ['key', 'key'])
  await vi.advanceTimersByTimeAsync(100)
  expect(node.calls()).toBe(2)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(node.calls()).toBe(2)
  expect(vi.getTimerCount()).toBe(0)
})

it('asks for a key again of which it has heard nothing for two rounds', async () => {
  const memory = memoryStore()
  const node = newNode(memory)
  await checkAll(node, ['early', 'late'])
  const byOthers = { name: 'limit', limit, units: 999 }
  for (const key of ['early', 'late']) memory.adjust([{ ...byOthers, key }])
  await vi.advanceTimersByTimeAsync(200)
  expect((await node.check('early', 1)).allowed).toBe(true)
  expect(node.calls()).toBe(2)
  await vi.advanceTimersByTimeAsync(1)
  expect((await node.check('late', 1)).allowed).toBe(false)
  expect(node.calls()).toBe(3)
})

it('learns what has come back to a key that is denied', async () => {
  const memory = memoryStore()
  const node = newNode(memory)
  await node.check('key', 1_000)
  expect((await node.check('key', 1)).allowed).toBe(false)
  memory.adjust([{ name: 'limit', limit, key: 'key', units: -10 }])
  await vi.advanceTimersByTimeAsync(100)
  expect(await node.check('key', 1)).toMatchObject({ allowed: true, remaining: 9 })
  expect(node.calls()).toBe(2)
})

it('has two calls under way at most, and tells the rest after them', async () => {
  const memory = memoryStore()
  const answers: (() => void)[] = []
  const onAdjust = () => new Promise<void>((resolve) => answers.push(resolve))
  const node = newNode(memory, { onAdjust })
  await checkAll(node, [...keysTo(300), ...keysTo(300)])
  await vi.advanceTimersByTimeAsync(100)
  for (let told = 0; told < 5; told++) {
    expect(answers).toHaveLength(Math.min(told + 2, 5))
    answers[told]?.()
    await vi.advanceTimersByTimeAsync(1)
  }
  expect(new Set(keysTo(300).map((key) => leftOf(memory, key)))).toEqual(new Set([998]))
})

it('tells each key by itself where they do not lie together', async () => {
  const memory = memoryStore()
  const node = newNode(memory, { capabilities: { sameShard: (group) => group.length === 1 } })
  await checkAll(node, [...keysTo(100), ...keysTo(100)])
  await vi.advanceTimersByTimeAsync(100)
  expect(node.calls()).toBe(200)
  expect(leftOf(memory, 'key 99')).toBe(998)
})

it('leaves to the store what it could not tell it', async () => {
  const memory = memoryStore()
  const node = newNode(memory, { onAdjust: () => Promise.reject(new Error('away')) })
  await checkAll(node, ['key', 'key'])
  await vi.advanceTimersByTimeAsync(201)
  expect(node.calls()).toBe(2)
  await node.check('key', 1)
  expect(node.calls()).toBe(3)
})

it('does not lose what was admitted while the store was asked', async () => {
  const memory = memoryStore()
  const answers: (() => void)[] = []
  const onCharged = () => new Promise<void>((resolve) => answers.push(resolve))
  const node = newNode(memory, { onCharged })
  const asked = [node.check('key', 1), node.check('key', 1)]
  answers[0]?.()
  await asked[0]
  await checkAll(node, ['key', 'key'])
  answers[1]?.()
  await asked[1]
  expect((await node.check('key', 1)).remaining).toBe(995)
  await node.leased.close()
  expect(leftOf(memory, 'key')).toBe(995)
})

it('counts what it could not tell in time when it asks for a key again', async () => {
  const memory = memoryStore()
  const node = newNode(memory, { onAdjust: () => new Promise(() => undefined) })
  await checkAll(node, [...keysTo(300), ...keysTo(300)])
  await vi.advanceTimersByTimeAsync(350)
  await node.check('key 299', 1)
  expect(leftOf(memory, 'key 299')).toBe(998)
  expect((await node.check('key 299', 1)).remaining).toBe(996)
})

it('charges nothing after a reset that was admitted before it', async () => {
  const memory = memoryStore()
  const node = newNode(memory)
  await checkAll(node, ['key', 'key'])
  await node.leased.reset([{ name: 'limit', limit, key: 'key' }])
  await vi.advanceTimersByTimeAsync(100)
  expect(leftOf(memory, 'key')).toBe(1_000)
})

it('tells in the next report what an overloaded process could not send', async () => {
  const memory = memoryStore()
  let isOverloaded = true
  const node = newNode(memory, {
    onAdjust: async () => (isOverloaded ? 'overloaded' : undefined),
  })
  for (let call = 0; call < 10; call++) await node.check('key', 1)
  await vi.advanceTimersByTimeAsync(150)
  expect(leftOf(memory, 'key')).toBe(999)
  isOverloaded = false
  await vi.advanceTimersByTimeAsync(150)
  expect(leftOf(memory, 'key')).toBe(990)
})
