import { describe, expect, it } from 'vitest'
import { createLimiter } from '../../limiter/create-limiter.ts'
import { fixedWindow, slidingWindow, tokenBucket } from '../../limits/limits.ts'
import { chargeOneAsGroup } from '../charge-one.ts'
import { frontStore } from '../front-store.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { Store } from '../store.ts'

/** The memory store as a remote one would look, which also tells the keys that it was asked for. */
function remoteStore(): { store: Store; keys: Set<string> } {
  const memory = memoryStore()
  const keys = new Set<string>()
  const store: Store = {
    isRemote: true,
    front: frontStore,
    capabilities: { leases: true },
    charge: async (group, mode) => {
      for (const { key } of group) keys.add(key)
      return memory.charge(group, mode)
    },
    chargeOne: chargeOneAsGroup,
    adjust: async (group) => memory.adjust(group),
    reset: async (group) => memory.reset(group),
    close: () => undefined,
  }
  return { store, keys }
}

const limits = {
  tokenBucket: tokenBucket({ limit: 103, per: '30d', split: 4 }),
  slidingWindow: slidingWindow({ limit: 103, per: '30d', split: 4 }),
  fixedWindow: fixedWindow({ limit: 103, per: '30d', split: 4 }),
}

describe.each(Object.entries(limits))('a split %s', (_, limit) => {
  it('admits exactly the limit over all of its parts, from several processes', async () => {
    const { store, keys } = remoteStore()
    const limiters = [1, 2, 3].map(() => createLimiter({ limit, store, deadlineMs: 10_000 }))
    const checks = limiters.flatMap((limiter) =>
      Array.from({ length: 100 }, () => limiter.check('key')),
    )
    const decisions = await Promise.all(checks)
    const denied = await limiters[0]?.check('key')
    await Promise.all(limiters.map((limiter) => limiter.close()))
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(103)
    expect(denied).toMatchObject({ allowed: false, limit: 103 })
    expect(denied?.retryAfterMs).toBeGreaterThan(0)
    expect([...keys].sort()).toEqual(['0/key', '1/key', '2/key', '3/key'])
  })

  it('tells what is left of all parts, and forgets all', async () => {
    const { store } = remoteStore()
    const limiter = createLimiter({ limit, store, deadlineMs: 10_000 })
    expect((await limiter.peek('key')).remaining).toBe(103)
    await limiter.check('key', { cost: 20 })
    expect((await limiter.peek('key')).remaining).toBe(83)
    await limiter.refund('key', 5)
    expect((await limiter.peek('key')).remaining).toBe(88)
    await limiter.reset('key')
    expect((await limiter.peek('key')).remaining).toBe(103)
    await limiter.close()
  })
})

it('refuses what a split limit cannot do', async () => {
  const { store } = remoteStore()
  const limit = limits.tokenBucket
  const limiter = createLimiter({ limit, store })
  const wrongUse = expect.objectContaining({ code: 'wrong-use' })
  await expect(limiter.reserve('key', 1)).rejects.toThrow(wrongUse)
  await expect(limiter.check('key', { partial: true })).rejects.toThrow(wrongUse)
  const layered = createLimiter({ limits: { one: limit, other: limit }, store })
  await expect(layered.check({ one: 'a', other: 'b' })).rejects.toThrow(wrongUse)
  expect(() => tokenBucket({ limit: 1, per: '1s', split: 65 })).toThrow(/^tokenBucket\.split: /)
})
