import { describe, expect, it } from 'vitest'
import type { LayeredDecision } from '../decision.ts'
import { TidegateError } from '../errors.ts'
import { createLimiter } from '../limiter/create-limiter.ts'
import { concurrency, fixedWindow } from '../limits/limits.ts'
import type { LimiterEvent } from '../observer.ts'
import { chargeOneAsGroup } from '../stores/charge-one.ts'
import { frontStore } from '../stores/front-store.ts'
import { memoryStore } from '../stores/memory/memory-store.ts'
import { createGuard } from './guard.ts'
import type { FoundKeys, GuardOptions } from './guard-options.ts'

const limit = fixedWindow({ limit: 2, per: '1m' })

const source = {
  remoteAddress: () => '192.0.2.1' as string | undefined,
  forwardedFor: () => undefined,
}

/** A limiter that remembers what it was asked. */
function spy(names?: readonly string[]) {
  const calls: unknown[] = []
  const real = createLimiter({ limit })
  const limiter = {
    names: names ?? real.names,
    layered: names !== undefined,
    evaluate(keys: unknown, options?: unknown) {
      calls.push(keys, options)
      return real.evaluate('any')
    },
    refund: () => real.refund('any'),
  }
  return { calls, limiter }
}

/** A promise of another library, such as a query builder. */
function thenable<T>(value: T): Promise<T> {
  const then = (resolve: (value: T) => void) => resolve(value)
  return { then } as Promise<T>
}

async function keysFor(found: FoundKeys, names?: readonly string[]): Promise<unknown> {
  const { calls, limiter } = spy(names)
  await createGuard({ limiter, key: () => found }, source).evaluate({})
  return calls[0]
}

describe('the key of a guard', () => {
  const ip = '192.0.2.1'

  it.each<[FoundKeys, string]>([
    ['ann', 'ann'],
    [undefined, ip],
    [null, ip],
    ['', ip],
    ['a'.repeat(1024), 'a'.repeat(1024)],
    ['é'.repeat(512), 'é'.repeat(512)],
  ])('%j is %s', async (found, key) => {
    expect(await keysFor(found)).toBe(key)
  })

  it.each(['a'.repeat(1025), 'é'.repeat(513), '\u{1F30A}'.repeat(257)])(
    'of more than 1 KiB is a digest',
    async (found) => {
      expect(await keysFor(found)).toMatch(/^sha256:[0-9a-f]{64}$/)
      expect(await keysFor(found)).toBe(await keysFor(found))
      expect(await keysFor(`${found}x`)).not.toBe(await keysFor(found))
    },
  )

  it.each<[FoundKeys, object]>([
    [undefined, { org: ip, user: ip }],
    ['ann', { org: 'ann', user: 'ann' }],
    [
      { org: 'acme', user: 'ann' },
      { org: 'acme', user: 'ann' },
    ],
    [{ org: 'acme' }, { org: 'acme', user: ip }],
    [
      { org: '', user: null },
      { org: ip, user: ip },
    ],
    [
      { org: 'acme', usr: 'ann' },
      { org: 'acme', user: ip, usr: 'ann' },
    ],
  ])('%j of a layered limiter is %j', async (found, keys) => {
    expect(await keysFor(found, ['org', 'user'])).toEqual(keys)
  })

  it('is refused if it is not a text', async () => {
    const found = 42 as unknown as string
    await expect(keysFor(found)).rejects.toMatchObject({ code: 'invalid-key', path: 'key' })
    const record = { org: { id: 1 } } as unknown as FoundKeys
    await expect(keysFor(record, ['org'])).rejects.toMatchObject({ path: 'key.org' })
    await expect(keysFor({ org: 'acme' })).rejects.toMatchObject({ path: 'key' })
  })

  it('is unknown for a socket without an address', async () => {
    const { calls, limiter } = spy()
    await createGuard({ limiter }, { ...source, remoteAddress: () => undefined }).evaluate({})
    expect(calls[0]).toBe('unknown')
  })
})

describe('a guard', () => {
  it('passes the cost and the request on', async () => {
    const { calls, limiter } = spy()
    const request = { path: '/' }
    await createGuard<object>({ limiter, cost: async () => 7 }, source).evaluate(request)
    expect(calls[1]).toEqual({ cost: 7, context: request })
  })

  it.each([
    ['one limit', { limit }],
    ['several limits', { limits: { one: limit, other: limit } }],
    ['functions that return values', { limit, skip: () => false, key: () => 'ada', cost: () => 1 }],
  ])('decides without a promise in memory: %s', (_, options: GuardOptions<object>) => {
    const guard = createGuard(options, source)
    expect(guard.evaluate({})).toMatchObject({ decision: { allowed: true, remaining: 1 } })
  })

  it.each([
    ['skip', { skip: async () => false }],
    ['key', { key: async () => 'ada' }],
    ['cost', { cost: async () => 1 }],
    ['limit', { limit: async () => limit }],
    ['a promise that is not of this realm', { key: () => thenable('ada') }],
  ])('waits for a function that is asynchronous: %s', async (_, options: object) => {
    const guard = createGuard<object>({ limit, ...options }, source)
    const outcome = guard.evaluate({})
    expect(outcome).toBeInstanceOf(Promise)
    expect(await outcome).toMatchObject({ decision: { allowed: true, remaining: 1 } })
  })

  it('shares the counters of a limiter that is given to two', async () => {
    const limiter = createLimiter({ limit })
    const [one, other] = [createGuard({ limiter }, source), createGuard({ limiter }, source)]
    await one.evaluate({})
    expect((await other.evaluate({}))?.decision.remaining).toBe(0)
    expect((await one.evaluate({}))?.problem?.status).toBe(429)
  })

  it('outlives a refund that fails', async () => {
    const { limiter } = spy()
    const failing = { ...limiter, refund: () => Promise.reject(new Error('store is gone')) }
    const guard = createGuard({ limiter: failing, skipFailedRequests: true }, source)
    const outcome = await guard.evaluate({})
    outcome?.settle?.(500)
    await new Promise(setImmediate)
    expect(outcome?.settle).toBeDefined()
  })

  it('gives nothing back that was not charged', async () => {
    const store = memoryStore({ keysMax: 1 })
    const options = { limit: fixedWindow({ limit: 1, per: '1m' }), store, skipFailedRequests: true }
    let key = 'first'
    const guard = createGuard({ ...options, key: () => key }, source)
    expect((await guard.evaluate({}))?.settle).toBeDefined()
    expect((await guard.evaluate({}))?.settle).toBeUndefined()
    key = 'second'
    const uncounted = await guard.evaluate({})
    expect(uncounted?.decision.degraded).not.toBeNull()
    expect(uncounted?.settle).toBeUndefined()
  })
})

describe('a guard passes to its limiter', () => {
  it('the limit that the others lie within, and those that do not', async () => {
    const limits = {
      all: fixedWindow({ limit: 3, per: '1h' }),
      org: fixedWindow({ limit: 9, per: '1h' }),
      user: fixedWindow({ limit: 1, per: '1h' }),
    }
    const key = (org: object) => ({ all: 'all', org: String(org), user: 'ada' })
    const guard = createGuard({ limits, within: 'org', shared: ['all'], key }, source)
    const violated = async (org: string) => {
      const outcome = await guard.evaluate(org as unknown as object)
      const decision = outcome?.decision as LayeredDecision | undefined
      return decision?.violated
    }
    expect(await violated('a')).toEqual([])
    expect(await violated('b')).toEqual([])
    expect(await violated('a')).toEqual(['user'])
    expect(await violated('c')).toEqual([])
    expect(await violated('d')).toEqual(['all'])
  })

  it('what holds while the store is away, and who is told', async () => {
    const down = () => Promise.reject(new TidegateError('store-unreachable', 'down'))
    const calls = {
      charge: down,
      chargeOne: chargeOneAsGroup,
      adjust: down,
      reset: down,
      close() {},
    }
    const store = { isRemote: true, front: frontStore, ...calls }
    const events: LimiterEvent[] = []
    const observer = (event: LimiterEvent) => events.push(event)
    const options = { limit, store, onStoreError: 'closed', deadlineMs: 1_000, observer } as const
    const outcome = await createGuard(options, source).evaluate({})
    expect(outcome?.decision).toMatchObject({ allowed: false, degraded: { mode: 'closed' } })
    expect(outcome?.problem?.status).toBe(503)
    expect(events.map(({ type }) => type)).toContain('degraded')
  })
})

describe('a guard refuses when it is made', () => {
  const limiter = createLimiter({ limit })
  const within = 'createLimiter.within'

  it.each<[string, object, string]>([
    ['no limit', {}, 'tidegate'],
    ['two limits', { limit, limits: { api: limit } }, 'tidegate'],
    ['a limit beside a limiter', { limit, limiter }, 'tidegate'],
    ['an unknown option', { limit, max: 5 }, 'tidegate.max'],
    ['an option of another middleware', { limit, hook: 'onRequest' }, 'tidegate.hook'],
    ['a name beside limits', { limits: { api: limit }, name: 'api' }, 'tidegate.name'],
    ['a name beside a limiter', { limiter, name: 'api' }, 'tidegate.name'],
    ['a store beside a limiter', { limiter, store: memoryStore() }, 'tidegate.store'],
    ['a deadline beside a limiter', { limiter, deadlineMs: 9 }, 'tidegate.deadlineMs'],
    ['within beside a limiter', { limiter, within: 'api' }, 'tidegate.within'],
    ['within beside one limit', { limit, within: 'api' }, 'tidegate.within'],
    ['within that is none of the limits', { limits: { api: limit }, within: 'a' }, within],
    ['a limiter that is none', { limiter: limit }, 'tidegate.limiter'],
    ['a key that is not a function', { limit, key: 'ip' }, 'tidegate.key'],
    ['a skip that is not a function', { limit, skip: true }, 'tidegate.skip'],
    ['a handler that is not a function', { limit, handler: 'no' }, 'tidegate.handler'],
    ['half a cost', { limit, cost: 0.5 }, 'tidegate.cost'],
    ['a cost below 0', { limit, cost: -1 }, 'tidegate.cost'],
    ['an unknown dialect', { limit, headers: 'draft-7' }, 'tidegate.headers'],
    [
      'a refund that is not a boolean',
      { limit, skipFailedRequests: 1 },
      'tidegate.skipFailedRequests',
    ],
    ['proxies that are no list', { limit, trustProxy: true }, 'tidegate.trustProxy'],
    ['a prefix out of range', { limit, ipv6Prefix: 16 }, 'tidegate.ipv6Prefix'],
  ])('%s', (_, options, path) => {
    const refused = expect.objectContaining({ code: 'invalid-option', path } as TidegateError)
    expect(() => createGuard(options as GuardOptions<object>, source)).toThrow(refused)
  })

  it('a concurrency limit', () => {
    const slots = concurrency({ limit: 2, ttl: '1m' })
    const refused = expect.objectContaining({ code: 'wrong-use' } as TidegateError)
    expect(() => createGuard({ limit: slots }, source)).toThrow(refused)
    expect(() => createGuard({ limits: { slots } }, source)).toThrow(refused)
  })
})
