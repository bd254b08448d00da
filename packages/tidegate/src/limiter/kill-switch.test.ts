import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createGuard } from '../http/guard.ts'
import { concurrency, tokenBucket } from '../limits/limits.ts'
import type { LimiterEvent } from '../observer.ts'
import { chargeOneAsGroup } from '../stores/charge-one.ts'
import { frontStore } from '../stores/front-store.ts'
import { memoryStore } from '../stores/memory/memory-store.ts'
import type { Store } from '../stores/store.ts'
import { createLimiter } from './create-limiter.ts'
import { isLimitingEnabled } from './kill-switch.ts'

const VARIABLE = 'TIDEGATE_ENABLED'

const limit = tokenBucket({ limit: 2, per: '1h', onStoreError: 'closed' })

const disabled = { reason: 'disabled', mode: 'open' }

/** A store that never answers, and counts what it was asked. */
function hungStore() {
  const asked = { calls: 0 }
  const hang = () => {
    asked.calls++
    return new Promise<never>(() => {})
  }
  const calls = { charge: hang, adjust: hang, reset: hang, close: () => {} }
  const store: Store = {
    isRemote: true,
    front: frontStore,
    chargeOne: chargeOneAsGroup,
    ...calls,
  }
  return Object.assign(asked, { store })
}

let before: string | undefined

beforeEach(() => {
  before = process.env[VARIABLE]
  delete process.env[VARIABLE]
})

afterEach(() => {
  if (before === undefined) delete process.env[VARIABLE]
  else process.env[VARIABLE] = before
})

describe('the environment variable', () => {
  it.each(['1', 'true', 'on', 'yes', 'TRUE', ' On ', ''])('leaves limiting on with %j', (text) => {
    process.env[VARIABLE] = text
    expect(createLimiter({ limit }).enabled).toBe(true)
    expect(createLimiter({ limit, enabled: true }).enabled).toBe(true)
    expect(createLimiter({ limit, enabled: false }).enabled).toBe(false)
  })

  it.each(['0', 'false', 'off', 'no', 'FALSE', ' Off '])('turns limiting off with %j', (text) => {
    process.env[VARIABLE] = text
    expect(createLimiter({ limit }).enabled).toBe(false)
    expect(createLimiter({ limit, enabled: true }).enabled).toBe(false)
    expect(createLimiter({ limit, enabled: false }).enabled).toBe(false)
  })

  it.each(['disabled', '2', 'nope', 'true;', 'null'])('is refused with %j', (text) => {
    process.env[VARIABLE] = text
    const allowed = '1, true, on, yes, 0, false, off, no'
    const message = `TIDEGATE_ENABLED: got "${text}", allowed: ${allowed}`
    expect(() => createLimiter({ limit })).toThrow(message)
  })

  it('is read when a limiter is made, and not later', async () => {
    const limiter = createLimiter({ limit })
    process.env[VARIABLE] = 'off'
    expect((await limiter.check('key')).degraded).toBe(null)
    expect(isLimitingEnabled(undefined)).toBe(false)
  })
})

describe('the option', () => {
  it.each(['false', 0, null, {}])('is refused with %o', (enabled) => {
    const make = () => createLimiter({ limit, enabled: enabled as never })
    expect(make).toThrow(/^createLimiter\.enabled: got .*, allowed: true or false$/)
  })

  it('turns limiting off from the start, whatever the store does', async () => {
    const hung = hungStore()
    for (const store of [hung.store, memoryStore()]) {
      const limiter = createLimiter({ limit, store, enabled: false })
      const admitted = { allowed: true, granted: 5, retryAfterMs: 0, degraded: disabled }
      for (let at = 0; at < 10; at++) {
        expect(await limiter.check('key', { cost: 5 })).toMatchObject(admitted)
      }
    }
    expect(hung.calls).toBe(0)
  })
})

describe('setEnabled', () => {
  it('turns limiting off and on again, and counts nothing in between', async () => {
    const limiter = createLimiter({ limit })
    await limiter.check('key')
    limiter.setEnabled(false)
    expect(limiter.enabled).toBe(false)
    for (let at = 0; at < 10; at++) expect((await limiter.check('key')).degraded).toEqual(disabled)
    limiter.setEnabled(true)
    expect(await limiter.check('key')).toMatchObject({
      allowed: true,
      remaining: 0,
      degraded: null,
    })
    expect(await limiter.check('key')).toMatchObject({ allowed: false, degraded: null })
  })

  it('answers every call at once while the store hangs', async () => {
    const hung = hungStore()
    const limits = { slots: concurrency({ limit: 1, ttl: '1m' }), units: limit }
    const limiter = createLimiter({ limit, store: hung.store, deadlineMs: 60_000 })
    const slots = createLimiter({ limits, store: hung.store, deadlineMs: 60_000 })
    // It began before, and waits for the store.
    void limiter.check('key')
    limiter.setEnabled(false)
    slots.setEnabled(false)
    const decisions = [
      await limiter.check('key'),
      await limiter.check('key', { partial: true, cost: 9 }),
      await limiter.peek('key'),
      await limiter.refund('key'),
      await limiter.wait('key'),
      await limiter.reserve('key', 9),
      await slots.acquire({ slots: 'key', units: 'key' }),
      (await limiter.evaluate('key')).decision,
    ]
    for (const decision of decisions) {
      expect(decision).toMatchObject({ allowed: true, degraded: disabled })
    }
    expect(hung.calls).toBe(1)
  })

  it('lets reservations and slots be settled where they were taken', async () => {
    const limiter = createLimiter({ limit })
    const taken = await limiter.reserve('key', 2)
    limiter.setEnabled(false)
    const open = await limiter.reserve('key', 2)
    await taken.commit(1)
    await open.commit(2)
    limiter.setEnabled(true)
    expect(await limiter.peek('key')).toMatchObject({ remaining: 1 })
  })

  it('is told to the observer once for each change', () => {
    const events: LimiterEvent[] = []
    const observer = (event: LimiterEvent) => events.push(event)
    const limiter = createLimiter({ limit, observer })
    for (const enabled of [true, false, false, true, true]) limiter.setEnabled(enabled)
    expect(events).toEqual([
      { type: 'enabled', enabled: false },
      { type: 'enabled', enabled: true },
    ])
  })

  it('turns on again what the environment or the option has turned off', async () => {
    process.env[VARIABLE] = 'off'
    const limiter = createLimiter({ limit, enabled: false })
    limiter.setEnabled(true)
    expect((await limiter.check('key', { cost: 3 })).allowed).toBe(false)
  })

  it.each(['on', 1, undefined, null])('refuses %o', (enabled) => {
    const limiter = createLimiter({ limit })
    expect(() => limiter.setEnabled(enabled as never)).toThrow(/^setEnabled: got .*, allowed: true/)
    expect(limiter.enabled).toBe(true)
  })

  it('changes one limiter and not another on the same store', async () => {
    const store = memoryStore()
    const [off, on] = [createLimiter({ limit, store }), createLimiter({ limit, store })]
    off.setEnabled(false)
    expect((await off.check('key', { cost: 3 })).allowed).toBe(true)
    expect((await on.check('key', { cost: 3 })).allowed).toBe(false)
  })
})

describe('a guard while limiting is off', () => {
  /** The header fields of one response, and whether the request goes on. */
  async function respond(enabled: boolean) {
    const limiter = createLimiter({ limit, store: hungStore().store })
    limiter.setEnabled(enabled)
    const guard = createGuard(
      { limiter, skipFailedRequests: true },
      { remoteAddress: () => '192.0.2.1', forwardedFor: () => undefined },
    )
    const outcome = await guard.evaluate({})
    const fields: Record<string, string> = {}
    outcome?.writeHead({
      getHeader: (name) => fields[name],
      setHeader: (name, value) => (fields[name] = value),
    })
    return { fields, problem: outcome?.problem, settle: outcome?.settle }
  }

  it('lets requests pass without any rate limit field, and has nothing to give back', async () => {
    expect(await respond(false)).toEqual({ fields: {}, problem: undefined, settle: undefined })
  })

  it('would have refused them with 503 and said so', async () => {
    const { fields, problem } = await respond(true)
    expect(problem).toMatchObject({ status: 503 })
    expect(fields).toMatchObject({
      'retry-after': '1',
      'x-ratelimit-status': 'degraded',
      'x-ratelimit-warning': 'rate-limiter-unavailable',
    })
  })
})
