import { describe, expect, it } from 'vitest'
import { manualClock } from '../../clock.ts'
import { fixedWindow, slidingLog, tokenBucket } from '../../policy/limits.ts'
import { storeContract } from '../store-contract.ts'
import { memoryStore } from './memory-store.ts'

storeContract((clock) => memoryStore({ clock }))

describe('memory store', () => {
  it('keeps no more than keysMax keys', () => {
    const store = memoryStore({ keysMax: 100 })
    const charge = store.charger('limit', tokenBucket({ limit: 10, per: '1h' }))
    for (let at = 0; at < 10_000; at++) charge(`key ${at}`, 1)
    expect(store.size).toBe(100)
  })

  it('forgets an idle key before one in use, and never one that blocks somebody', () => {
    const clock = manualClock()
    const store = memoryStore({ keysMax: 3, clock })
    const charge = store.charger('limit', tokenBucket({ limit: 3, per: '1h' }))
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

  it('keeps a key that denied a large cost although a small one would pass', () => {
    const clock = manualClock()
    const store = memoryStore({ keysMax: 2, clock })
    const charge = store.charger('limit', tokenBucket({ limit: 10, per: '1h' }))
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
    const charge = store.charger('limit', fixedWindow({ limit: 1, per: '1m' }))
    charge('first', 1)
    expect(charge('second', 1)).toMatchObject({ allowed: true, degraded: { reason: 'overloaded' } })
    clock.advance(60_000)
    expect(charge('second', 1)).toMatchObject({ allowed: true, degraded: null })
    expect(charge('second', 1).allowed).toBe(false)
  })

  it('admits without counting, and says so, when every key blocks somebody', () => {
    const store = memoryStore({ keysMax: 5 })
    const charge = store.charger('limit', tokenBucket({ limit: 1, per: '1h' }))
    for (let at = 0; at < 5; at++) expect(charge(`key ${at}`, 1).degraded).toBe(null)
    const degraded = { reason: 'overloaded', mode: 'open' }
    expect(charge('one more', 1)).toMatchObject({ allowed: true, retryAfterMs: 0, degraded })
    for (let at = 0; at < 5; at++) expect(charge(`key ${at}`, 1).allowed).toBe(false)
  })

  it('reclaims expired keys in small steps while new ones come', () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    const charge = store.charger('limit', tokenBucket({ limit: 10, per: '1s' }))
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
    const charge = store.charger('limit', limit)
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
