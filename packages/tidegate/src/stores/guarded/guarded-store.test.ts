import { describe, expect, it, vi } from 'vitest'
import type { Limit } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import { type ErrorCode, errorCodes, TidegateError } from '../../errors.ts'
import { fixedWindow, slidingLog, tokenBucket } from '../../limits/limits.ts'
import { chargeOneAsGroup, chargeSingle } from '../charge-one.ts'
import { storeContract } from '../contract/store-contract.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { Charge, ChargeMode, MaybePromise, Store } from '../store.ts'
import { guardedStore } from './guarded-store.ts'

type Fault = () => MaybePromise<never>

/** Memory behind promises, until it is given a fault. */
function remoteStore(memory: Store = memoryStore()) {
  const remote = { fault: undefined as Fault | undefined, calls: 0 }
  const ask = <T>(answer: () => MaybePromise<T>): MaybePromise<T> => {
    remote.calls++
    return remote.fault === undefined ? Promise.resolve(answer()) : remote.fault()
  }
  const store: Store = {
    isRemote: true,
    charge: (group, mode) => ask(() => memory.charge(group, mode)),
    chargeOne: chargeOneAsGroup,
    adjust: (group) => ask(() => memory.adjust(group)),
    reset: (group) => ask(() => memory.reset(group)),
    close: () => memory.close(),
  }
  return Object.assign(remote, { store })
}

/** A store that answers single charges later than the call, as a driver with callbacks does. */
function withCallbacks(store: Store): Store {
  return {
    ...store,
    chargeOne(counter, cost, done) {
      const decisions = new Promise<readonly Decision[]>((resolve) => {
        resolve(store.charge([{ ...counter, cost }], 'all'))
      })
      decisions.then(([decision]) => done.resolve(decision as Decision), done.reject.bind(done))
      return undefined
    },
  }
}

/** Charges one counter of the limit. */
async function chargeOne(store: Store, cost: number): Promise<Decision> {
  return chargeSingle(store, { name: 'limit', limit: open, key: 'key' }, cost)
}

const hangs: Fault = () => new Promise<never>(() => {})

function rejects(code: ErrorCode): Fault {
  return () => Promise.reject(new TidegateError(code, `it is ${code}`))
}

const down = rejects('store-unreachable')

const open = tokenBucket({ limit: 10, per: '1h', onStoreError: 'open' })
const closed = fixedWindow({ limit: 10, per: '1h', onStoreError: 'closed' })
const local = slidingLog({ limit: 10, per: '1h', onStoreError: 'local' })

function charge(limit: Limit, cost = 1, name = 'limit'): Charge {
  return { name, key: 'key', limit, cost }
}

/** A store that is down, guarded so that it is asked every time. */
function outage(fault: Fault = down) {
  const remote = remoteStore()
  const store = guardedStore(remote.store, { nodes: 1, breaker: { callsMin: 1_000_000 } })
  const ask = (group: readonly Charge[], mode: ChargeMode = 'all') => store.charge(group, mode)
  remote.fault = fault
  return { remote, store, ask }
}

describe('a guarded store that is answered', () => {
  const patient = { deadlineMs: 60_000 }
  storeContract((clock) => guardedStore(remoteStore(memoryStore({ clock })).store, patient))

  it('says what the store says, in groups and one by one', async () => {
    for (const { store } of [remoteStore(), { store: withCallbacks(remoteStore().store) }]) {
      const guarded = guardedStore(store, patient)
      expect(await chargeOne(guarded, 3)).toMatchObject({ remaining: 7, degraded: null })
      const [decision] = await guarded.charge([charge(open, 3)], 'all')
      expect(decision).toMatchObject({ remaining: 4, degraded: null })
    }
  })

  it('closes the store when it is closed', async () => {
    let closes = 0
    const guarded = guardedStore({ ...remoteStore().store, close: () => void closes++ })
    await guarded.close()
    expect(closes).toBe(1)
  })

  it('takes answers that are no promises', async () => {
    const guarded = guardedStore({ isRemote: true, ...bound(memoryStore()) })
    const [decision] = await guarded.charge([charge(open)], 'all')
    expect(decision).toMatchObject({ remaining: 9, degraded: null })
  })
})

function bound(store: Store): Pick<Store, 'charge' | 'chargeOne' | 'adjust' | 'reset' | 'close'> {
  return {
    charge: (group, mode) => store.charge(group, mode),
    chargeOne: chargeOneAsGroup,
    adjust: (group) => store.adjust(group),
    reset: (group) => store.reset(group),
    close: () => store.close(),
  }
}

describe('a guarded store that is not answered', () => {
  it.each([1, 15, 200])('decides after %i ms, and not before', async (deadlineMs) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'setImmediate', 'performance'] })
    const remote = remoteStore()
    remote.fault = hangs
    const guarded = guardedStore(withCallbacks(remote.store), { deadlineMs })
    const told: unknown[] = []
    const tell = ({ degraded }: Decision) => told.push(degraded)
    void Promise.resolve(guarded.charge([charge(open)], 'all')).then(([one]) =>
      tell(one as Decision),
    )
    void chargeOne(guarded, 1).then(tell)
    await vi.advanceTimersByTimeAsync(deadlineMs - 1)
    expect(told).toEqual([])
    await vi.advanceTimersByTimeAsync(2)
    const degraded = { reason: 'timeout', mode: 'open' }
    expect(told).toEqual([degraded, degraded])
    vi.useRealTimers()
  })

  const throws = (error: unknown) => () => {
    throw error
  }
  const faults: ReadonlyArray<[string, Fault, string]> = [
    ['store-timeout', rejects('store-timeout'), 'timeout'],
    ['store-unreachable', rejects('store-unreachable'), 'unreachable'],
    ['store-failed', rejects('store-failed'), 'store-error'],
    ['an error of a driver', () => Promise.reject(new Error('ECONNRESET')), 'store-error'],
    ['no error at all', () => Promise.reject(undefined), 'store-error'],
    ['a thrown error', throws(new TidegateError('store-unreachable', 'gone')), 'unreachable'],
    ['a thrown text', throws('gone'), 'store-error'],
  ]

  it.each(faults)('says why: %s', async (_what, fault, reason) => {
    for (const [limit, mode] of [
      [open, 'open'],
      [closed, 'closed'],
      [local, 'local'],
    ] as const) {
      const { ask } = outage(fault)
      expect((await ask([charge(limit)]))[0]?.degraded).toEqual({ reason, mode })
    }
  })

  const mistakes = errorCodes.filter((code) => !/^(store-.*|overloaded)$/.test(code))

  it.each(mistakes)('lets the caller see %s, and stays closed', async (code) => {
    const remote = remoteStore()
    const guarded = guardedStore(withCallbacks(remote.store))
    remote.fault = rejects(code)
    for (let at = 0; at < 50; at++) {
      await expect(async () => guarded.charge([charge(open)], 'all')).rejects.toMatchObject({
        code,
      })
      await expect(chargeOne(guarded, 1)).rejects.toThrow(code)
      await expect(async () => guarded.adjust([{ ...charge(open), units: 1 }])).rejects.toThrow()
    }
    remote.fault = undefined
    const [decision] = await guarded.charge([charge(open)], 'all')
    expect(decision).toMatchObject({ remaining: 9, degraded: null })
  })

  it('rejects, and does not leave the caller waiting, where a limit is none', async () => {
    const { ask, store } = outage()
    const limit = { ...local, algorithm: 'unknown' } as unknown as Limit
    await expect(async () => ask([charge(limit)])).rejects.toThrow(TypeError)
    await expect(async () => store.adjust([{ ...charge(limit), units: 1 }])).rejects.toThrow()
  })

  it('rejects where the store answers with fewer decisions than it was asked for', async () => {
    const broken: Store = { ...remoteStore().store, charge: async () => [] }
    const guarded = guardedStore(broken, { nodes: 1 })
    await expect(async () => guarded.charge([charge(local)], 'all')).rejects.toThrow(TypeError)
  })

  it('rejects a reset that was not done', async () => {
    const { store } = outage()
    await expect(async () => store.reset([charge(local)])).rejects.toThrow('store-unreachable')
  })
})

describe('a call that a store could not judge in time', () => {
  const undeclared = tokenBucket({ limit: 10, per: '1h' })

  it('is refused by default, charges nothing, and spreads when its clients return', async () => {
    const { ask } = outage(rejects('overloaded'))
    const decisions = await Promise.all(
      Array.from({ length: 200 }, async () => (await ask([charge(undeclared)]))[0] as Decision),
    )
    const degraded = { reason: 'overloaded', mode: 'shed' }
    for (const one of decisions) expect(one).toMatchObject({ allowed: false, granted: 0, degraded })
    const waits = decisions.map(({ retryAfterMs }) => retryAfterMs)
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(1_000)
    expect(Math.max(...waits)).toBeLessThan(5_000)
    expect(new Set(waits.map((ms) => Math.ceil(ms / 1_000))).size).toBeGreaterThan(2)
  })

  it.each([
    ['shed', { allowed: false }],
    ['open', { allowed: true, granted: 1 }],
    ['local', { allowed: true, granted: 1, remaining: 9 }],
  ] as const)('is decided by onOverload of its limit: %s', async (onOverload, expected) => {
    const { ask } = outage(rejects('overloaded'))
    const limit = tokenBucket({ limit: 10, per: '1h', onStoreError: 'closed', onOverload })
    const degraded = { reason: 'overloaded', mode: onOverload }
    expect((await ask([charge(limit)]))[0]).toMatchObject({ ...expected, degraded })
  })

  it('is decided by onOverload of the guard if its limit declares nothing', async () => {
    const remote = remoteStore()
    remote.fault = rejects('overloaded')
    const store = guardedStore(remote.store, { onOverload: 'open', onStoreError: 'closed' })
    const [decision] = await store.charge([charge(undeclared)], 'all')
    expect(decision).toMatchObject({ allowed: true, degraded: { mode: 'open' } })
  })

  it('takes all of its group with it, and charges no share', async () => {
    const { ask } = outage(rejects('overloaded'))
    const limit = tokenBucket({ limit: 10, per: '1h', onOverload: 'local' })
    for (let at = 0; at < 20; at++) {
      const decisions = await ask([charge(limit, 4, 'a'), charge(undeclared, 4, 'b')])
      expect(decisions).toMatchObject([{ granted: 0, remaining: 10 }, { allowed: false }])
    }
  })

  it('never moves the breaker', async () => {
    const remote = remoteStore()
    const store = guardedStore(remote.store)
    remote.fault = rejects('overloaded')
    for (let at = 0; at < 100; at++) await store.charge([charge(undeclared)], 'all')
    remote.fault = undefined
    expect((await store.charge([charge(undeclared)], 'all'))[0]?.degraded).toBe(null)
  })
})

describe('a decision without the store', () => {
  it('admits where the limit is open, and has counted nothing', async () => {
    const { ask } = outage()
    for (let at = 0; at < 30; at++) {
      const admitted = { allowed: true, limit: 10, remaining: 10, retryAfterMs: 0, granted: 3 }
      expect((await ask([charge(open, 3)]))[0]).toMatchObject(admitted)
    }
  })

  it('refuses where the limit is closed, for at least a second', async () => {
    const { ask } = outage()
    const refused = { allowed: false, limit: 10, remaining: 0, retryAfterMs: 1_000, granted: 0 }
    expect((await ask([charge(closed, 0)]))[0]).toMatchObject(refused)
    expect((await ask([charge(closed)]))[0]).toMatchObject(refused)
  })

  it('refuses for as long as the breaker is open', async () => {
    const remote = remoteStore()
    const breaker = { callsMin: 1, openFirstMs: 60_000 }
    const guarded = guardedStore(remote.store, { breaker })
    remote.fault = down
    await guarded.charge([charge(closed)], 'all')
    const [decision] = await guarded.charge([charge(closed)], 'all')
    expect(decision?.degraded).toEqual({ reason: 'breaker-open', mode: 'closed' })
    expect(decision?.retryAfterMs).toBeGreaterThan(40_000)
    expect(decision?.retryAfterMs).toBeLessThanOrEqual(60_000)
  })

  it('holds what the limit declares, else what the guard does', async () => {
    const undeclared = tokenBucket({ limit: 10, per: '1h' })
    for (const onStoreError of ['open', 'closed', 'local'] as const) {
      const remote = remoteStore()
      const guarded = guardedStore(remote.store, { onStoreError, nodes: 1 })
      remote.fault = down
      const modeOf = async (limit: Limit) =>
        (await guarded.charge([charge(limit)], 'all'))[0]?.degraded?.mode
      expect(await modeOf(undeclared)).toBe(onStoreError)
      expect(await modeOf(open)).toBe('open')
      expect(await modeOf(closed)).toBe('closed')
      expect(await modeOf(local)).toBe('local')
    }
  })

  it('charges no share where a closed limit refuses', async () => {
    const { ask } = outage()
    for (let at = 0; at < 20; at++) {
      expect(
        await ask([charge(local, 4, 'a'), charge(closed, 4, 'b'), charge(open, 4, 'c')]),
      ).toMatchObject([
        { allowed: true, granted: 0, remaining: 10, degraded: { mode: 'local' } },
        { allowed: false, granted: 0, degraded: { mode: 'closed' } },
        { allowed: true, granted: 0, degraded: { mode: 'open' } },
      ])
    }
    expect((await ask([charge(local, 10, 'a')]))[0]?.allowed).toBe(true)
  })

  it('charges no share where another one refuses', async () => {
    const { ask } = outage()
    await ask([charge(local, 8, 'a')])
    expect(
      await ask([charge(local, 4, 'a'), charge(local, 4, 'b'), charge(open, 4, 'c')]),
    ).toMatchObject([
      { allowed: false, granted: 0, remaining: 2 },
      { allowed: true, granted: 0, remaining: 10 },
      { allowed: true, granted: 0 },
    ])
    expect(
      await ask([charge(local, 2, 'a'), charge(local, 2, 'b'), charge(open, 2, 'c')]),
    ).toMatchObject([
      { allowed: true, granted: 2, remaining: 0 },
      { allowed: true, granted: 2, remaining: 8 },
      { allowed: true, granted: 2 },
    ])
  })

  it('only looks where it was asked to', async () => {
    const { ask } = outage()
    for (let at = 0; at < 5; at++) {
      expect(await ask([charge(local, 7, 'a'), charge(open, 7, 'b')], 'peek')).toMatchObject([
        { allowed: true, granted: 0, remaining: 10 },
        { allowed: true, granted: 0 },
      ])
    }
    expect((await ask([charge(local, 11, 'a')], 'peek'))[0]).toMatchObject({ allowed: false })
    expect((await ask([charge(closed)], 'peek'))[0]).toMatchObject({ allowed: false })
  })

  it('grants a part where it was asked to', async () => {
    const { ask } = outage()
    expect(await ask([charge(local, 4, 'a'), charge(open, 4, 'b')], 'partial')).toMatchObject([
      { allowed: true, granted: 4 },
      { allowed: true, granted: 4 },
    ])
    expect((await ask([charge(local, 20, 'a')], 'partial'))[0]).toMatchObject({ granted: 6 })
    const nothing = { allowed: false, granted: 0 }
    expect((await ask([charge(local, 20, 'a')], 'partial'))[0]).toMatchObject(nothing)
    const both = await ask([charge(local, 5, 'b'), charge(closed, 5, 'c')], 'partial')
    expect(both).toMatchObject([
      { granted: 0, remaining: 10 },
      { allowed: false, granted: 0 },
    ])
  })

  it('gives back and adds what is counted here', async () => {
    const { ask, store } = outage()
    await ask([charge(local, 6, 'a')])
    const adjusted = await store.adjust([
      { ...charge(local, 0, 'a'), units: -2 },
      { ...charge(open, 0, 'b'), units: -2 },
      { ...charge(closed, 0, 'c'), units: 5 },
    ])
    expect(adjusted).toMatchObject([
      { remaining: 6, degraded: { reason: 'unreachable', mode: 'local' } },
      { remaining: 10, granted: 0, degraded: { reason: 'unreachable', mode: 'open' } },
      { remaining: 10, granted: 0, degraded: { reason: 'unreachable', mode: 'closed' } },
    ])
    const [over] = await store.adjust([{ ...charge(local, 0, 'a'), units: 20 }])
    expect(over).toMatchObject({ remaining: 0 })
  })
})
