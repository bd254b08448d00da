import { describe, expect, it } from 'vitest'
import type { Limit } from '../../../algorithms/limit.ts'
import { manualClock } from '../../../clock.ts'
import type { Decision } from '../../../decision.ts'
import {
  concurrency,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../../limits/limits.ts'
import { memoryStore } from '../../memory/memory-store.ts'
import type { Charge } from '../../store.ts'
import { LocalShares } from './local-shares.ts'

const HOUR_MS = 3_600_000

const makers: Record<string, (limit: number) => Limit> = {
  tokenBucket: (limit) => tokenBucket({ limit, per: `${HOUR_MS}ms` }),
  slidingWindow: (limit) => slidingWindow({ limit, per: `${HOUR_MS}ms` }),
  slidingLog: (limit) => slidingLog({ limit, per: `${HOUR_MS}ms` }),
  fixedWindow: (limit) => fixedWindow({ limit, per: `${HOUR_MS}ms` }),
}

/** A store, and the shares of one of `nodes` processes that remembers what the store says. */
function bench(nodes = 1) {
  // At the beginning of an hour.
  const clock = manualClock(472_222 * HOUR_MS)
  const store = memoryStore({ clock })
  const size = { nodes }
  const local = new LocalShares(() => size.nodes, clock)
  const charge = (limit: Limit, cost: number, key = 'key'): Charge => {
    return { name: 'limit', key, limit, cost }
  }
  return {
    clock,
    local,
    size,
    /** The store answers. */
    remotely(limit: Limit, cost: number, key?: string): void {
      const [decision] = store.charge([charge(limit, cost, key)], 'all')
      local.remember(charge(limit, cost, key), decision as Decision)
    },
    /** The store does not answer. */
    locally(limit: Limit, cost: number, key?: string): Decision {
      return local.charge([charge(limit, cost, key)], 'all')[0] as Decision
    },
  }
}

describe.each(Object.entries(makers))('a local share of %s', (_name, make) => {
  const limit = make(12)

  it('is admitted to the unit', () => {
    const { locally } = bench(3)
    expect(locally(limit, 4)).toMatchObject({ allowed: true, limit: 4, remaining: 0 })
    expect(locally(limit, 1)).toMatchObject({ allowed: false, granted: 0 })
  })

  it('begins with what the store has said', () => {
    const { remotely, locally } = bench()
    remotely(limit, 9)
    expect(locally(limit, 4).allowed).toBe(false)
    expect(locally(limit, 3)).toMatchObject({ allowed: true, remaining: 0 })
  })

  it('begins with its part of what the store has said, rounded up', () => {
    const { remotely, locally } = bench(3)
    remotely(limit, 7)
    expect(locally(limit, 0).remaining).toBe(1)
  })

  it('is nothing where the store had nothing left', () => {
    const { remotely, locally } = bench(3)
    remotely(limit, 12)
    expect(locally(limit, 1).allowed).toBe(false)
  })

  it('is not refilled by answers in between, however many', () => {
    const { clock, remotely, locally } = bench()
    let admitted = 0
    for (let at = 0; at < 12; at++) {
      clock.advance(1)
      remotely(limit, 1)
      clock.advance(1)
      for (let call = 0; call < 9; call++) if (locally(limit, 1).allowed) admitted++
    }
    expect(admitted).toBeLessThanOrEqual(12)
    expect(locally(limit, 1).allowed).toBe(false)
  })

  it('goes on from newer answers where they say that more is used', () => {
    const { remotely, locally } = bench()
    remotely(limit, 2)
    expect(locally(limit, 1).remaining).toBe(9)
    remotely(limit, 8)
    expect(locally(limit, 0).remaining).toBe(2)
    expect(locally(limit, 1).remaining).toBe(1)
    remotely(limit, 0)
    expect(locally(limit, 0).remaining).toBe(1)
  })

  it('takes an answer of the same millisecond into account', () => {
    const { remotely, locally } = bench()
    locally(limit, 1)
    remotely(limit, 12)
    expect(locally(limit, 1).allowed).toBe(false)
  })

  it('takes an answer into account after the clock has jumped back', () => {
    const { clock, remotely, locally } = bench()
    remotely(limit, 1)
    locally(limit, 1)
    clock.jump(-10 * HOUR_MS)
    remotely(limit, 11)
    expect(locally(limit, 1).allowed).toBe(false)
  })

  it('comes back with time', () => {
    const { clock, remotely, locally } = bench()
    remotely(limit, 12)
    clock.advance(2 * HOUR_MS)
    expect(locally(limit, 12)).toMatchObject({ allowed: true })
    expect(locally(limit, 1).allowed).toBe(false)
    clock.advance(2 * HOUR_MS)
    expect(locally(limit, 12)).toMatchObject({ allowed: true })
  })

  it('knows what is used by its own count where a limit is raised or lowered', () => {
    const lowered = bench()
    lowered.remotely(make(100), 50)
    expect(lowered.locally(make(12), 1).allowed).toBe(false)
    const raised = bench()
    raised.remotely(make(100), 50)
    expect(raised.locally(make(200), 0).remaining).toBe(150)
  })

  it('changes with the number of processes', () => {
    const { size, locally } = bench(1)
    locally(limit, 5)
    size.nodes = 3
    expect(locally(limit, 1)).toMatchObject({ allowed: false, limit: 4 })
    size.nodes = 1
    expect(locally(limit, 7)).toMatchObject({ allowed: true, limit: 12 })
  })

  it('is whole again after a reset', () => {
    const { local, remotely, locally } = bench()
    remotely(limit, 6)
    locally(limit, 6)
    local.reset([{ name: 'limit', key: 'key', limit }])
    expect(locally(limit, 12).allowed).toBe(true)
  })

  it('can be given back and added to', () => {
    const { local, remotely } = bench()
    remotely(limit, 6)
    const adjust = (units: number) => local.adjust([{ name: 'limit', key: 'key', limit, units }])
    expect(adjust(-2)).toMatchObject([{ remaining: 8 }])
    expect(adjust(5)).toMatchObject([{ remaining: 3 }])
    expect(adjust(-100)).toMatchObject([{ remaining: 12 }])
  })

  it('can be held', () => {
    const { clock, local, locally } = bench(3)
    const hold = { id: 'one', ttlMs: 1_000 }
    local.charge([{ name: 'limit', key: 'key', limit, cost: 3, hold }], 'all')
    expect(locally(limit, 2).allowed).toBe(false)
    local.adjust([{ name: 'limit', key: 'key', limit, units: 1, release: 'one' }])
    expect(locally(limit, 0).remaining).toBe(3)
    local.charge([{ name: 'limit', key: 'key', limit, cost: 3, hold }], 'all')
    clock.advance(1_000)
    expect(locally(limit, 0).remaining).toBe(3)
  })
})

describe('a local share of a token bucket', () => {
  it('drains from what the store has said', () => {
    const { clock, remotely, locally } = bench()
    const limit = tokenBucket({ limit: 12, per: `${HOUR_MS}ms` })
    remotely(limit, 12)
    clock.advance(HOUR_MS / 2)
    expect(locally(limit, 0).remaining).toBe(6)
    clock.advance(HOUR_MS / 4)
    expect(locally(limit, 0).remaining).toBe(9)
  })
})

describe('a local share of slots', () => {
  const limit = concurrency({ limit: 6, ttl: '1m' })

  /** Takes a slot, by the store or without it. */
  function slots(nodes: number) {
    const { clock, local } = bench(nodes)
    const store = memoryStore({ clock })
    const take = (id: string, isAnswered: boolean) => {
      const hold = { id, ttlMs: 60_000 }
      const charge = { name: 'limit', key: 'key', limit, cost: 1, hold }
      if (!isAnswered) return local.charge([charge], 'all')[0]?.allowed
      const [decision] = store.charge([charge], 'all')
      local.remember(charge, decision as Decision)
      return decision?.allowed
    }
    const release = (id: string, isAnswered: boolean) => {
      const adjustment = { name: 'limit', key: 'key', limit, units: 0, release: id }
      if (!isAnswered) return local.adjust([adjustment])
      const [decision] = store.adjust([adjustment])
      local.remember(adjustment, decision as Decision)
      return undefined
    }
    return { clock, local, take, release }
  }

  it('is less by those that this process has taken while the store answered', () => {
    const { take } = slots(2)
    for (const id of ['a', 'b']) expect(take(id, true)).toBe(true)
    expect(take('c', false)).toBe(true)
    expect(take('d', false)).toBe(false)
  })

  it('has room again when they are released, by the store or without it', () => {
    const { take, release } = slots(2)
    for (const id of ['a', 'b', 'c']) take(id, true)
    expect(take('d', false)).toBe(false)
    release('a', false)
    expect(take('e', false)).toBe(true)
    expect(take('f', false)).toBe(false)
    release('e', true)
    expect(take('g', false)).toBe(true)
    expect(take('h', false)).toBe(false)
  })

  it('waits until fewer than the share are taken where more were', () => {
    const { take, release } = slots(3)
    for (const id of ['a', 'b', 'c', 'd']) take(id, true)
    for (const id of ['a', 'b']) {
      release(id, false)
      expect(take('e', false)).toBe(false)
    }
    release('c', false)
    expect(take('e', false)).toBe(true)
  })

  it('does not count what the store has refused', () => {
    const { take, release } = slots(1)
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) expect(take(id, true)).toBe(true)
    expect(take('g', true)).toBe(false)
    release('a', false)
    expect(take('h', false)).toBe(true)
  })

  it('forgets those that were not released when they expire', () => {
    const { clock, take } = slots(6)
    take('a', true)
    expect(take('b', false)).toBe(false)
    clock.advance(60_000)
    expect(take('b', false)).toBe(true)
  })

  it('does not count those of a group that another limit has refused', () => {
    const { clock, local } = bench()
    const store = memoryStore({ clock })
    const none = fixedWindow({ limit: 0, per: '1h' })
    const one = concurrency({ limit: 1, ttl: '1m' })
    const group: Charge[] = [
      { name: 'slots', key: 'key', limit: one, cost: 1, hold: { id: 'a', ttlMs: 60_000 } },
      { name: 'none', key: 'key', limit: none, cost: 1 },
    ]
    const decisions = store.charge(group, 'all')
    for (const [at, charge] of group.entries()) local.remember(charge, decisions[at] as Decision)
    const slot = { ...(group[0] as Charge), hold: { id: 'b', ttlMs: 60_000 } }
    expect(local.charge([slot], 'all')[0]?.allowed).toBe(true)
  })
})

describe('the memory of local shares', () => {
  it('keeps the counters that were last in use, and forgets others', () => {
    const { remotely, locally } = bench()
    const limit = fixedWindow({ limit: 1, per: '1h' })
    const keys = 200_000
    for (let at = 0; at < keys; at++) {
      remotely(limit, 1, `key ${at}`)
      if (at % 10_000 === 0) remotely(limit, 1, 'always in use')
    }
    const known = (at: number) => !locally(limit, 1, `key ${at}`).allowed
    expect(known(0)).toBe(false)
    expect(known(keys - 70_000)).toBe(false)
    for (let at = keys - 30_000; at < keys; at++) expect(known(at)).toBe(true)
    expect(locally(limit, 1, 'always in use').allowed).toBe(false)
  })

  it('forgets what is reset, however long ago it was in use', () => {
    const { local, remotely, locally } = bench()
    const limit = fixedWindow({ limit: 1, per: '1h' })
    remotely(limit, 1)
    for (let at = 0; at < 40_000; at++) remotely(limit, 1, `key ${at}`)
    local.reset([{ name: 'limit', key: 'key', limit }])
    expect(locally(limit, 1).allowed).toBe(true)
  })

  it('keeps apart limits, algorithms and keys', () => {
    const { local, locally } = bench()
    const limit = fixedWindow({ limit: 1, per: '1h' })
    const used = { ...locally(limit, 0), remaining: 0, resetAfterMs: HOUR_MS }
    local.remember({ name: 'limit', key: 'key', limit, cost: 1 }, used)
    const allowed = (name: string, key: string, of: Limit = limit) =>
      local.charge([{ name, key, limit: of, cost: 1 }], 'all')[0]?.allowed
    expect(allowed('other', 'key')).toBe(true)
    expect(allowed('limit', 'other')).toBe(true)
    expect(allowed('limit', 'key', slidingLog({ limit: 1, per: '1h' }))).toBe(true)
    expect(allowed('limit', 'key')).toBe(false)
  })
})
