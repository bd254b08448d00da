import { describe, expect, it } from 'vitest'
import type { Limit } from '../../algorithms/limit.ts'
import { manualClock } from '../../clock.ts'
import { fixedWindow, slidingLog, tokenBucket } from '../../limits/limits.ts'
import { storeContract } from '../contract/store-contract.ts'
import { type MemoryStore, memoryStore } from './memory-store.ts'

storeContract((clock) => memoryStore({ clock }))

/** Returns a function that charges single counters of a limit. */
function chargerOf(store: MemoryStore, name: string, limit: Limit) {
  return (key: string, cost: number) => store.chargeOne({ name, limit, key }, cost)
}

describe('memory store', () => {
  it('keeps no more than keysMax keys', () => {
    const store = memoryStore({ keysMax: 100 })
    const charge = chargerOf(store, 'limit', tokenBucket({ limit: 10, per: '1h' }))
    for (let at = 0; at < 10_000; at++) charge(`key ${at}`, 1)
    expect(store.size).toBe(100)
  })

  it('forgets an idle key before one in use, and never one that blocks a client', () => {
    const clock = manualClock()
    const store = memoryStore({ keysMax: 3, clock })
    const charge = chargerOf(store, 'limit', tokenBucket({ limit: 3, per: '1h' }))
    charge('blocking', 3)
    clock.advance(1)
    charge('idle', 1)
    clock.advance(1)
    charge('used', 1)
    for (let at = 0; at < 50; at++) {
      clock.advance(1)
      charge('used', 0)
      charge(`new ${at}`, 1)
    }
    expect(charge('blocking', 1).allowed).toBe(false)
    expect(charge('used', 0).remaining).toBe(2)
    expect(charge('idle', 0).remaining).toBe(3)
  })

  it('keeps the counters of a limit while keys are made up for another', () => {
    const clock = manualClock()
    const store = memoryStore({ keysMax: 100, clock })
    const accounts = chargerOf(store, 'accounts', tokenBucket({ limit: 100, per: '1h' }))
    const addresses = chargerOf(store, 'addresses', tokenBucket({ limit: 100, per: '1h' }))
    accounts('ada', 60)
    for (let at = 0; at < 10_000; at++) {
      clock.advance(1)
      addresses(`address ${at}`, 1)
    }
    expect(accounts('ada', 0).remaining).toBe(40)
  })

  it('keeps a key that denied a large cost although a small one would pass', () => {
    const clock = manualClock()
    const store = memoryStore({ keysMax: 2, clock })
    const charge = chargerOf(store, 'limit', tokenBucket({ limit: 10, per: '1h' }))
    charge('large', 5)
    expect(charge('large', 6).allowed).toBe(false)
    for (let at = 0; at < 50; at++) {
      clock.advance(1)
      charge(`new ${at}`, 1)
    }
    expect(charge('large', 0).remaining).toBe(5)
  })

  it('evicts a key once it no longer blocks', () => {
    const clock = manualClock(0)
    const store = memoryStore({ keysMax: 1, clock })
    const charge = chargerOf(store, 'limit', fixedWindow({ limit: 1, per: '1m' }))
    charge('first', 1)
    expect(charge('second', 1).degraded).toEqual({ reason: 'overloaded', mode: 'shed' })
    clock.advance(60_000)
    expect(charge('second', 1)).toMatchObject({ allowed: true, degraded: null })
    expect(charge('second', 1).allowed).toBe(false)
  })

  it.each([undefined, 'shed', 'local'] as const)(
    'refuses a new key when every key blocks a client: onOverload %s',
    (onOverload) => {
      const store = memoryStore({ keysMax: 5 })
      const mode = onOverload === undefined ? {} : { onOverload }
      const charge = chargerOf(store, 'limit', tokenBucket({ limit: 1, per: '1h', ...mode }))
      for (let at = 0; at < 5; at++) expect(charge(`key ${at}`, 1).degraded).toBe(null)
      const refused = charge('one more', 1)
      const degraded = { reason: 'overloaded', mode: 'shed' }
      expect(refused).toMatchObject({ allowed: false, granted: 0, degraded })
      expect(refused.retryAfterMs).toBeGreaterThanOrEqual(1_000)
      expect(refused.retryAfterMs).toBeLessThanOrEqual(5_000)
      for (let at = 0; at < 5; at++) expect(charge(`key ${at}`, 1).allowed).toBe(false)
    },
  )

  it('admits a new key without counting when its limit says so', () => {
    const store = memoryStore({ keysMax: 5 })
    const limit = tokenBucket({ limit: 1, per: '1h', onOverload: 'open' })
    const charge = chargerOf(store, 'limit', limit)
    for (let at = 0; at < 5; at++) expect(charge(`key ${at}`, 1).degraded).toBe(null)
    const degraded = { reason: 'overloaded', mode: 'open' }
    expect(charge('one more', 1)).toMatchObject({ allowed: true, retryAfterMs: 0, degraded })
    for (let at = 0; at < 5; at++) expect(charge(`key ${at}`, 1).allowed).toBe(false)
  })

  it('charges nothing of a group when one of its keys has no room', () => {
    const store = memoryStore({ keysMax: 4 })
    const blocked = fixedWindow({ limit: 1, per: '1h' })
    const other = fixedWindow({ limit: 10, per: '1h' })
    const charge = chargerOf(store, 'blocked', blocked)
    chargerOf(store, 'other', other)('known', 1)
    for (let at = 0; at < 3; at++) charge(`key ${at}`, 1)
    const group = (key: string) => [
      { name: 'other', key, limit: other, cost: 1 },
      { name: 'blocked', key: 'one more', limit: blocked, cost: 1 },
    ]
    for (const [key, remaining] of [
      ['new', 10],
      ['known', 9],
    ] as const) {
      const [first, second] = store.charge(group(key), 'all')
      expect(first).toMatchObject({ allowed: true, granted: 0, remaining, degraded: null })
      expect(second).toMatchObject({ allowed: false, degraded: { mode: 'shed' } })
    }
    expect(store.size).toBe(4)
    for (let at = 0; at < 3; at++) expect(charge(`key ${at}`, 1).allowed).toBe(false)
  })

  it('charges a group as a whole when it takes places of others for each of its keys', () => {
    const clock = manualClock()
    const store = memoryStore({ keysMax: 3, clock })
    const limit = fixedWindow({ limit: 10, per: '1h' })
    const names = ['a', 'b', 'c']
    for (let round = 0; round < 20; round++) {
      const group = names.map((name) => ({ name, key: `${round}`, limit, cost: 1 }))
      expect(store.charge(group, 'all').map(({ remaining }) => remaining)).toEqual([9, 9, 9])
      expect(store.charge(group, 'all').map(({ remaining }) => remaining)).toEqual([8, 8, 8])
      clock.advance(1)
    }
    expect(store.size).toBe(3)
  })

  it('reclaims expired keys in small steps while new ones come', () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    const charge = chargerOf(store, 'limit', tokenBucket({ limit: 10, per: '1s' }))
    for (let at = 0; at < 10_000; at++) charge(`old ${at}`, 1)
    clock.advance(60_000)
    charge('new', 1)
    expect(store.size).toBeGreaterThan(9_990)
    for (let at = 0; at < 5_000; at++) charge(`new ${at}`, 1)
    expect(store.size).toBeLessThan(5_010)
  })

  it('keeps the counters of a group apart when one takes the slot of another', () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    const limit = fixedWindow({ limit: 100, per: '1s' })
    const charge = (a: string, b: string, cost: number) =>
      store.charge(
        [
          { name: 'a', key: a, limit, cost },
          { name: 'b', key: b, limit, cost },
        ],
        'all',
      )
    charge('x', 'y', 50)
    clock.advance(5_000)
    charge('new', 'y', 50)
    expect(charge('new', 'y', 0)).toMatchObject([{ remaining: 50 }, { remaining: 50 }])
    expect(charge('x', 'y', 0)).toMatchObject([{ remaining: 100 }, { remaining: 50 }])
  })

  it('never evicts units that are held', () => {
    const clock = manualClock()
    const store = memoryStore({ keysMax: 2, clock })
    const limit = tokenBucket({ limit: 10, per: '1h' })
    const hold = { id: 'a', ttlMs: 60_000 }
    store.charge([{ name: 'limit', key: 'held', limit, cost: 4, hold }], 'all')
    const charge = chargerOf(store, 'limit', limit)
    for (let at = 0; at < 50; at++) {
      clock.advance(1)
      charge(`new ${at}`, 1)
    }
    expect(charge('held', 0).remaining).toBe(6)
  })

  it('reclaims holds and logs with their slots', () => {
    const clock = manualClock()
    const store = memoryStore({ keysMax: 1, clock })
    const limit = slidingLog({ limit: 10, per: '1s' })
    const hold = { id: 'a', ttlMs: 500 }
    store.charge([{ name: 'limit', key: 'first', limit, cost: 1 }], 'all')
    store.charge([{ name: 'limit', key: 'first', limit, cost: 1, hold }], 'all')
    clock.advance(1_000)
    const [decision] = store.charge([{ name: 'limit', key: 'second', limit, cost: 0 }], 'all')
    expect(decision?.remaining).toBe(10)
    const [charged] = store.charge([{ name: 'limit', key: 'second', limit, cost: 1 }], 'all')
    expect(charged?.remaining).toBe(9)
  })

  it('refuses options that it does not know', () => {
    expect(() => memoryStore({ maxKeys: 5 } as never)).toThrow(/memoryStore\.maxKeys: got 5/)
  })

  it.each([0, -1, 1.5, Number.NaN, 2 ** 24, '5'])('refuses keysMax %s', (keysMax) => {
    const options = { keysMax: keysMax as number }
    expect(() => memoryStore(options)).toThrow(/memoryStore\.keysMax: got .*, allowed: a whole/)
  })
})
