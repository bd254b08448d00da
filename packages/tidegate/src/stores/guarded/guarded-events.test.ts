import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Decision, FailureMode } from '../../decision.ts'
import { type ErrorCode, TidegateError } from '../../errors.ts'
import { tokenBucket } from '../../limits/limits.ts'
import type { LimiterEvent, Observer } from '../../observer.ts'
import { chargeOneAsGroup, chargeSingle } from '../charge-one.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { Charge, Store } from '../store.ts'
import type { GuardedOptions } from './guarded-options.ts'
import { guardedStore } from './guarded-store.ts'

/** A guarded store with shards, each of which has its own fault, and what it tells. */
function bench(options: GuardedOptions = {}, more: Partial<Store> = {}) {
  const memory = memoryStore()
  const faults = new Map<string, ErrorCode>()
  const events: LimiterEvent[] = []
  const store: Store = {
    isRemote: true,
    charge: async (group, mode) => {
      const code = faults.get(shardOf(group[0] as Charge))
      if (code !== undefined) throw new TidegateError(code, `it is ${code}`)
      return memory.charge(group, mode)
    },
    chargeOne: chargeOneAsGroup,
    adjust: async (group) => memory.adjust(group),
    reset: async (group) => memory.reset(group),
    close: () => memory.close(),
    ...more,
  }
  const guard = guardedStore(store, { observer: (event) => events.push(event), ...options })
  const ask = async (key: string, onStoreError: FailureMode = 'open', cost = 1) => {
    const limit = tokenBucket({ limit: 1_000, per: '1h', onStoreError })
    return (await guard.charge([{ name: 'limit', key, limit, cost }], 'all'))[0] as Decision
  }
  const told = (type: LimiterEvent['type']) => events.filter((event) => event.type === type)
  return { guard, faults, events, ask, told }
}

/** The part of a key before the colon. */
function shardOf({ key }: { readonly key: string }): string {
  return key.split(':')[0] as string
}

async function times(count: number, ask: () => Promise<unknown>): Promise<void> {
  for (let at = 0; at < count; at++) await ask()
}

beforeEach(() => {
  const timers = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const
  vi.useFakeTimers({ toFake: [...timers, 'setImmediate', 'performance'] })
})

afterEach(() => {
  vi.useRealTimers()
})

describe('the observer', () => {
  it('is told nothing while all is well', async () => {
    const { events, ask } = bench()
    await times(100, () => ask('a'))
    expect(events).toEqual([])
  })

  it('is told once of every decision without the store', async () => {
    const { faults, events, ask, guard } = bench({ nodes: 1 })
    faults.set('a', 'store-unreachable')
    await ask('a', 'open')
    await ask('a', 'closed')
    await ask('a', 'local', 600)
    await ask('a', 'local', 600)
    const told = { type: 'degraded', reason: 'unreachable', limits: ['limit'] }
    expect(events).toEqual([
      { ...told, mode: 'open', allowed: true },
      { ...told, mode: 'closed', allowed: false },
      { ...told, mode: 'local', allowed: true },
      { ...told, mode: 'local', allowed: false },
    ])
    const charge = (name: string, onStoreError: FailureMode) => {
      return { name, key: 'a', cost: 1, limit: tokenBucket({ limit: 5, per: '1h', onStoreError }) }
    }
    await guard.charge([charge('x', 'open'), charge('y', 'closed'), charge('z', 'local')], 'all')
    const group = { ...told, mode: 'closed', allowed: false, limits: ['x', 'y', 'z'] }
    expect(events.at(-1)).toEqual(group)
    expect(events).toHaveLength(5)
  })

  it('is told once of each change of the breaker, and of the recovery', async () => {
    const { faults, events, ask, told } = bench()
    faults.set('a', 'store-failed')
    await times(30, () => ask('a'))
    await vi.advanceTimersByTimeAsync(500)
    await times(30, () => ask('a'))
    await vi.advanceTimersByTimeAsync(500)
    faults.clear()
    await times(30, () => ask('a'))
    const change = { type: 'breaker', shard: '' }
    expect(told('breaker')).toEqual([
      { ...change, from: 'closed', to: 'open', openMs: 500 },
      { ...change, from: 'open', to: 'half-open' },
      { ...change, from: 'half-open', to: 'open', openMs: 500 },
      { ...change, from: 'open', to: 'half-open' },
      { ...change, from: 'half-open', to: 'closed' },
    ])
    expect(events.at(-1)).toEqual({ type: 'recovered', shard: '', outageMs: 1_000 })
    expect(told('recovered')).toHaveLength(1)
    expect(told('degraded')).toHaveLength(60)
  })

  it('is told how long each outage was', async () => {
    const { faults, ask, told } = bench({ breaker: { openFirstMs: 100, openMs: 100 } })
    for (const outageMs of [100, 3_000, 200]) {
      faults.set('a', 'store-unreachable')
      await times(20, () => ask('a'))
      await vi.advanceTimersByTimeAsync(outageMs)
      faults.clear()
      await ask('a')
      expect(told('recovered').at(-1)).toEqual({ type: 'recovered', shard: '', outageMs })
      await vi.advanceTimersByTimeAsync(60_000)
    }
    expect(told('recovered')).toHaveLength(3)
  })

  it('harms nothing when it throws, or fails later', async () => {
    const throws: Observer = () => {
      throw new Error('the log is full')
    }
    // An unhandled error would fail this run.
    const failsLater: Observer = async () => throws({ type: 'nodes', count: 1 })
    for (const observer of [throws, failsLater]) {
      const { faults, ask } = bench({ observer })
      faults.set('a', 'store-failed')
      await times(20, () => ask('a'))
      expect((await ask('a')).degraded?.reason).toBe('breaker-open')
      await vi.advanceTimersByTimeAsync(500)
      faults.clear()
      expect((await ask('a')).degraded).toBe(null)
    }
  })

  it('is told how many processes there are when that changes', async () => {
    const counts = [1, 3, 3, 2]
    const heartbeat = async () => counts.shift() ?? 2
    const { guard, ask, events } = bench({}, { capabilities: { heartbeat } })
    await ask('a', 'local')
    await vi.advanceTimersByTimeAsync(20_000)
    expect(events).toEqual([
      { type: 'nodes', count: 3 },
      { type: 'nodes', count: 2 },
    ])
    await guard.close()
  })

  it('hears of no processes where no limit is local, or their number was given', async () => {
    const beats: string[] = []
    const heartbeat = async (id: string) => beats.push(id)
    await bench({}, { capabilities: { heartbeat } }).ask('a', 'open')
    await bench({ nodes: 2 }, { capabilities: { heartbeat } }).ask('a', 'local')
    expect(beats).toEqual([])
    const { ask, guard } = bench({}, { capabilities: { heartbeat } })
    await ask('a', 'local')
    expect(beats).toHaveLength(1)
    await guard.close()
  })
})

describe('shards', () => {
  it('have a breaker each', async () => {
    const { faults, ask, told } = bench({}, { capabilities: { shardOf } })
    faults.set('left', 'store-unreachable')
    await times(20, () => ask('left:1'))
    expect((await ask('left:2')).degraded?.reason).toBe('breaker-open')
    await times(20, () => ask('right:1'))
    expect((await ask('right:1')).degraded).toBe(null)
    const opened = { type: 'breaker', shard: 'left', from: 'closed', to: 'open', openMs: 500 }
    expect(told('breaker')).toEqual([opened])
    await vi.advanceTimersByTimeAsync(500)
    faults.clear()
    expect((await ask('left:1')).degraded).toBe(null)
    expect(told('recovered')).toEqual([{ type: 'recovered', shard: 'left', outageMs: 500 }])
  })

  it('are distinguished also by single charges', async () => {
    const limit = tokenBucket({ limit: 5, per: '1h' })
    const memory = memoryStore()
    const chargeOne: Store['chargeOne'] = (counter, cost, done) => {
      if (shardOf(counter) === 'right') return memory.chargeOne(counter, cost)
      done.reject(new TidegateError('store-unreachable', 'it is down'))
      return undefined
    }
    const { guard } = bench({}, { capabilities: { shardOf }, chargeOne })
    const charge = async (key: string) => chargeSingle(guard, { name: 'limit', limit, key }, 1)
    await times(20, () => charge('left:1'))
    expect((await charge('left:1')).degraded?.reason).toBe('breaker-open')
    expect((await charge('right:1')).degraded).toBe(null)
  })

  it('are bounded: those beyond 1,000 share one breaker', async () => {
    const { faults, ask, told } = bench({}, { capabilities: { shardOf } })
    for (let at = 0; at < 1_000; at++) await ask(`shard-${at}:key`)
    for (let at = 1_000; at < 1_020; at++) {
      faults.set(`shard-${at}`, 'store-unreachable')
      await ask(`shard-${at}:key`)
    }
    expect((await ask('another:key')).degraded?.reason).toBe('breaker-open')
    expect((await ask('shard-1:key')).degraded).toBe(null)
    expect(told('breaker')).toMatchObject([{ shard: '', to: 'open' }])
  })
})

describe('a store with a wrong set-up', () => {
  const warnings: Array<Error & { readonly code?: string }> = []
  // Else the process prints them.
  const others = process.listeners('warning')

  beforeEach(() => {
    process.removeAllListeners('warning')
    process.on('warning', (warning) => warnings.push(warning))
  })

  afterEach(async () => {
    await nextTick()
    warnings.length = 0
    process.removeAllListeners('warning')
    for (const other of others) process.on('warning', other)
  })

  it('is reported each time to the observer, and does not open the breaker', async () => {
    const { faults, ask, told } = bench()
    faults.set('a', 'store-misconfigured')
    await times(50, () => ask('a'))
    expect(told('misconfigured')).toHaveLength(50)
    expect(told('misconfigured')[0]).toMatchObject({ error: { code: 'store-misconfigured' } })
    expect(told('degraded')).toHaveLength(50)
    expect(told('breaker')).toEqual([])
  })

  it('follows what each limit declares', async () => {
    const { faults, ask } = bench({ nodes: 1 })
    faults.set('a', 'store-misconfigured')
    for (const mode of ['open', 'closed', 'local'] as const) {
      const { allowed, degraded } = await ask('a', mode)
      expect(degraded).toEqual({ reason: 'store-error', mode })
      expect(allowed).toBe(mode !== 'closed')
    }
  })

  it('is reported aloud once a minute as a warning of the process', async () => {
    const { faults, ask } = bench()
    faults.set('a', 'store-misconfigured')
    await times(50, () => ask('a'))
    await vi.advanceTimersByTimeAsync(59_000)
    await times(50, () => ask('a'))
    await nextTick()
    const said = {
      name: 'TidegateWarning',
      code: 'store-misconfigured',
      message: 'it is store-misconfigured',
    }
    expect(warnings).toMatchObject([said])
    await vi.advanceTimersByTimeAsync(1_000)
    await times(50, () => ask('a'))
    await nextTick()
    expect(warnings).toMatchObject([said, said])
  })

  it('is not seen in a store that has too much to do, which opens nothing either', async () => {
    const { faults, ask, told } = bench()
    faults.set('a', 'overloaded')
    await times(50, () => ask('a'))
    await nextTick()
    expect(told('degraded')).toHaveLength(50)
    expect([...told('breaker'), ...told('misconfigured')]).toEqual([])
    expect(warnings).toMatchObject([{ name: 'TidegateWarning', code: 'overloaded' }])
  })

  it('is not seen in a store that is merely down, which is a warning of its own', async () => {
    const { faults, ask } = bench()
    faults.set('a', 'store-failed')
    await times(50, () => ask('a'))
    await nextTick()
    expect(warnings).toMatchObject([{ name: 'TidegateWarning', code: 'store-error' }])
  })
})

/** Warnings are emitted behind what runs now, those of outages a moment later. */
async function nextTick(): Promise<void> {
  await vi.advanceTimersByTimeAsync(100)
  await new Promise<void>((resolve) => process.nextTick(resolve))
}
