import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Limit } from '../../algorithms/limit.ts'
import { type FailureMode, failureModes } from '../../decision.ts'
import { TidegateError } from '../../errors.ts'
import { createLimiter } from '../../limiter/create-limiter.ts'
import {
  concurrency,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../limits/limits.ts'
import { chargeOneAsGroup } from '../charge-one.ts'
import { frontStore } from '../front-store.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { Store } from '../store.ts'
import { type GuardedOptions, parseGuardedOptions } from './guarded-options.ts'
import { guardedStore } from './guarded-store.ts'

/** Memory behind promises, until it is down. */
function remoteStore() {
  const memory = memoryStore()
  const remote = { isDown: false, hangs: false, calls: 0 }
  const ask = async <T>(answer: () => T): Promise<T> => {
    remote.calls++
    if (remote.hangs) await new Promise(() => {})
    if (remote.isDown) throw new TidegateError('store-unreachable', 'it is down')
    return answer()
  }
  const store: Store = {
    isRemote: true,
    front: frontStore,
    charge: (group, mode) => ask(() => memory.charge(group, mode)),
    chargeOne: chargeOneAsGroup,
    adjust: (group) => ask(() => memory.adjust(group)),
    reset: (group) => ask(() => memory.reset(group)),
    close: () => undefined,
  }
  return Object.assign(remote, { store })
}

const limit = tokenBucket({ limit: 100, per: '1h' })

describe('options of a guarded store', () => {
  it('have defaults, and are frozen', () => {
    const settings = parseGuardedOptions({}, 'guardedStore')
    expect(settings).toEqual({
      bounds: { deadlineMs: undefined, queueMs: 1_000, queueMax: 50_000, connectMs: 1_000 },
      onStoreError: 'open',
      onOverload: 'shed',
      breaker: {
        errorRate: 0.5,
        windowMs: 10_000,
        callsMin: 10,
        openFirstMs: 500,
        openMs: 60_000,
      },
      nodes: undefined,
      observer: undefined,
    })
    expect(Object.isFrozen(settings) && Object.isFrozen(settings.breaker)).toBe(true)
  })

  it('have a first pause that is never longer than the longest', () => {
    const { breaker } = parseGuardedOptions({ breaker: { openMs: 100 } }, 'guardedStore')
    expect(breaker).toMatchObject({ openFirstMs: 100, openMs: 100 })
  })

  const wrong: ReadonlyArray<[object, string]> = [
    [{ deadlineMs: 0 }, '.deadlineMs: got 0, allowed: a whole number from 1 to 60000'],
    [{ deadlineMs: 1.5 }, '.deadlineMs: got 1.5, allowed: a whole number from 1 to 60000'],
    [{ deadlineMs: '15' }, '.deadlineMs: got "15", allowed: a whole number from 1 to 60000'],
    [{ deadlineMs: null }, '.deadlineMs: got null, allowed: a whole number from 1 to 60000'],
    [{ onStoreError: 'fail' }, `.onStoreError: got "fail", allowed: 'open', 'closed', 'local'`],
    [{ nodes: 0 }, '.nodes: got 0, allowed: a whole number from 1 to 1000000'],
    [{ nodes: null }, '.nodes: got null, allowed: a whole number from 1 to 1000000'],
    [{ observer: {} }, '.observer: got an object, allowed: a function'],
    [{ breaker: 5 }, '.breaker: got 5, allowed: an object of options'],
    [{ breaker: { openms: 5 } }, '.breaker.openms: got 5, allowed: no option but errorRate, '],
    [{ breaker: { errorRate: 1 } }, '.breaker.errorRate: got 1, allowed: a number from 0 to '],
    [{ breaker: { errorRate: -0.1 } }, '.breaker.errorRate: got -0.1, allowed: a number from'],
    [{ breaker: { errorRate: Number.NaN } }, '.breaker.errorRate: got NaN, allowed: a number'],
    [{ breaker: { errorRate: '50%' } }, '.breaker.errorRate: got "50%", allowed: a number fr'],
    [{ breaker: { windowMs: 9 } }, '.breaker.windowMs: got 9, allowed: a whole number from 10'],
    [{ breaker: { callsMin: 0 } }, '.breaker.callsMin: got 0, allowed: a whole number from 1'],
    [{ breaker: { openMs: 0 } }, '.breaker.openMs: got 0, allowed: a whole number from 1 to '],
    [
      { breaker: { openFirstMs: 60_001 } },
      '.breaker.openFirstMs: got 60001, allowed: a whole number from 1 to 60000',
    ],
  ]

  it.each(wrong)('are refused where they are wrong: %o', (options, message) => {
    const { store } = remoteStore()
    expect(() => guardedStore(store, options as GuardedOptions)).toThrow(`guardedStore${message}`)
    const asLimiter = () => createLimiter({ limit, store, ...options } as never)
    expect(asLimiter).toThrow(`createLimiter${message}`)
    const inMemory = () => createLimiter({ limit, ...options } as never)
    expect(inMemory).toThrow(`createLimiter${message}`)
  })

  it('are refused where they are misspelt', () => {
    const options = { deadlineMS: 5 } as never
    const message = /^guardedStore\.deadlineMS: got 5, allowed: no option but deadlineMs, /
    expect(() => guardedStore(remoteStore().store, options)).toThrow(message)
    expect(() => createLimiter({ limit, ...(options as object) })).toThrow(/deadlineMS: got 5/)
  })
})

describe('a limit', () => {
  type Declared = { readonly onStoreError?: FailureMode }

  const makers: Record<string, (declared: Declared) => Limit> = {
    tokenBucket: (declared) => tokenBucket({ limit: 5, per: '1h', ...declared }),
    slidingWindow: (declared) => slidingWindow({ limit: 5, per: '1h', ...declared }),
    slidingLog: (declared) => slidingLog({ limit: 5, per: '1h', ...declared }),
    fixedWindow: (declared) => fixedWindow({ limit: 5, per: '1h', ...declared }),
    concurrency: (declared) => concurrency({ limit: 5, ttl: '1m', ...declared }),
  }

  it.each(Object.entries(makers))('%s declares what holds without the store', (name, make) => {
    expect(make({})).not.toHaveProperty('onStoreError')
    for (const onStoreError of failureModes) {
      expect(make({ onStoreError })).toMatchObject({ limit: 5, onStoreError })
    }
    const wrong = () => make({ onStoreError: 'shut' as never })
    expect(wrong).toThrow(`${name}.onStoreError: got "shut", allowed: 'open', 'closed', 'local'`)
  })

  it('that depends on the key declares it too', async () => {
    const rule = tokenBucket({ limit: () => 5, per: '1h', onStoreError: 'local' })
    expect(await rule('key', undefined)).toMatchObject({ limit: 5, onStoreError: 'local' })
  })
})

describe('limiters on a remote store', () => {
  const down = { reason: 'unreachable', mode: 'open' }
  const known = { reason: 'breaker-open', mode: 'open' }

  it('share one guard where they have no options for it', async () => {
    const remote = remoteStore()
    const [first, second] = [1, 2].map(() => createLimiter({ limit, store: remote.store }))
    remote.isDown = true
    for (let at = 0; at < 10; at++) expect((await first?.check('a'))?.degraded).toEqual(down)
    expect((await second?.check('b'))?.degraded).toEqual(known)
    const layered = createLimiter({ limits: { user: limit }, store: remote.store })
    expect((await layered.check({ user: 'c' })).degraded).toEqual(known)
    expect(remote.calls).toBe(10)
  })

  it('share none with limiters on another store', async () => {
    const [broken, whole] = [remoteStore(), remoteStore()]
    const first = createLimiter({ limit, store: broken.store })
    broken.isDown = true
    for (let at = 0; at < 11; at++) await first.check('a')
    const second = createLimiter({ limit, store: whole.store })
    expect((await second.check('a')).degraded).toBe(null)
  })

  it('have one of their own with options', async () => {
    const remote = remoteStore()
    const shared = createLimiter({ limit, store: remote.store })
    const own = createLimiter({ limit, store: remote.store, onStoreError: 'closed' })
    remote.isDown = true
    for (let at = 0; at < 11; at++) await shared.check('a')
    const closed = { allowed: false, degraded: { reason: 'unreachable', mode: 'closed' } }
    expect(await own.check('a')).toMatchObject(closed)
    const undefinedOptions = { deadlineMs: undefined, observer: undefined } as never as object
    const same = createLimiter({ limit, store: remote.store, ...undefinedOptions })
    expect((await same.check('a')).degraded).toEqual(known)
  })

  it('use a guarded store as it is', async () => {
    const remote = remoteStore()
    const store = guardedStore(remote.store, { onStoreError: 'closed', breaker: { callsMin: 3 } })
    const [first, second] = [createLimiter({ limit, store }), createLimiter({ limit, store })]
    remote.isDown = true
    for (let at = 0; at < 3; at++) await first.check('a')
    const closed = { reason: 'breaker-open', mode: 'closed' }
    expect((await second.check('a')).degraded).toEqual(closed)
    expect(remote.calls).toBe(3)
  })

  it('do without a guard in memory', () => {
    const limiter = createLimiter({ limit, onStoreError: 'closed', deadlineMs: 1 })
    expect(limiter.checkSync('a')).toMatchObject({ allowed: true, degraded: null })
  })

  it('refuse checkSync, which no remote store can answer', () => {
    const limiter = createLimiter({ limit, store: remoteStore().store })
    expect(() => limiter.checkSync('a')).toThrow('checkSync needs the memory store')
  })
})

describe('a guard that was given', () => {
  it('is not put behind another one', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
    const { store } = remoteStore()
    const slow: Store = {
      ...store,
      charge: async (group, mode) => {
        await new Promise((resolve) => setTimeout(resolve, 50))
        return store.charge(group, mode)
      },
    }
    const limiter = createLimiter({ limit, store: guardedStore(slow, { deadlineMs: 100 }) })
    const answer = limiter.check('a')
    await vi.advanceTimersByTimeAsync(60)
    expect((await answer).degraded).toBe(null)
    vi.useRealTimers()
  })
})

describe('a store that was given', () => {
  it('stays open when a limiter with options for its guard is closed', async () => {
    const close = vi.fn()
    const store = { ...remoteStore().store, close }
    const limiter = createLimiter({ limit, store, deadlineMs: 100 })
    await limiter.check('a')
    await limiter.close()
    expect(close).not.toHaveBeenCalled()
    await guardedStore(store).close()
    expect(close).toHaveBeenCalledOnce()
  })

  it('is not guarded twice', () => {
    const guarded = guardedStore(remoteStore().store)
    const refused = /^createLimiter\.store: got an object, allowed: a store that is not guarded yet/
    expect(() => createLimiter({ limit, store: guarded, deadlineMs: 100 })).toThrow(refused)
    expect(() => guardedStore(guarded)).toThrow(/^guardedStore: /)
  })
})

describe('while the store is down', () => {
  it('what no limit ever grants is refused also by one that is open', async () => {
    const remote = remoteStore()
    remote.isDown = true
    const none = tokenBucket({ limit: 0, per: '1h' })
    const limiter = createLimiter({ name: 'none', limit: none, store: remote.store })
    const denied = { allowed: false, retryAfterMs: Infinity }
    expect(await limiter.check('a')).toMatchObject(denied)
    const many = createLimiter({ limit, store: remote.store })
    expect(await many.check('a', { cost: 101 })).toMatchObject(denied)
    expect(await many.check('a', { cost: 100 })).toMatchObject({ allowed: true })
  })

  it('a layered decision tells why it was refused', async () => {
    const remote = remoteStore()
    remote.isDown = true
    const closed = tokenBucket({ limit: 5, per: '1h', onStoreError: 'closed' })
    const limiter = createLimiter({ limits: { open: limit, closed }, store: remote.store })
    const decision = await limiter.check({ open: 'a', closed: 'a' })
    expect(decision).toMatchObject({ allowed: false, degraded: { mode: 'closed' } })
  })

  it('a hot key has its whole local share, whatever is asked for in blocks', async () => {
    const remote = remoteStore()
    const local = tokenBucket({ limit: 1000, per: '24h', onStoreError: 'local' })
    const store = { ...remote.store, capabilities: { leases: true } }
    const limiter = createLimiter({ limit: local, store, nodes: 2, deadlineMs: 1_000 })
    for (let call = 0; call < 300; call++) await limiter.check('a')
    remote.isDown = true
    let admitted = 0
    for (let call = 0; call < 2_000; call++) if ((await limiter.check('a')).allowed) admitted++
    await limiter.close()
    expect(admitted).toBeLessThanOrEqual(500)
    expect(admitted).toBeGreaterThanOrEqual(300)
  })
})

describe('the deadline', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
  })

  afterEach(() => {
    vi.useRealTimers()
  })

  it.each([undefined, 5, 100])('of a limiter is 15 ms, or as given: %s', async (deadlineMs) => {
    const remote = remoteStore()
    const given = deadlineMs === undefined ? {} : { deadlineMs }
    const limiter = createLimiter({ limit, store: remote.store, ...given })
    remote.hangs = true
    let answeredMs: number | undefined
    const startMs = performance.now()
    void limiter.check('a').then(() => {
      answeredMs = performance.now() - startMs
    })
    await vi.advanceTimersByTimeAsync(200)
    const dueMs = deadlineMs ?? 15
    expect(answeredMs).toBeGreaterThanOrEqual(dueMs)
    expect(answeredMs).toBeLessThanOrEqual(dueMs + 1)
  })
})
