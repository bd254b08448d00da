import { describe, expect, expectTypeOf, it } from 'vitest'
import { manualClock } from '../clock.ts'
import type { Decision } from '../decision.ts'
import { TidegateError } from '../errors.ts'
import { concurrency, fixedWindow, slidingWindow, tokenBucket } from '../limits/limits.ts'
import { chargeOneAsGroup } from '../stores/charge-one.ts'
import { frontStore } from '../stores/front-store.ts'
import { memoryStore } from '../stores/memory/memory-store.ts'
import type { Store } from '../stores/store.ts'
import { createLimiter } from './create-limiter.ts'

const hundred = tokenBucket({ limit: 100, per: '1h' })

/** The memory store as a remote one would look: every answer is a promise. */
function remoteStore(): Store {
  const store = memoryStore()
  return {
    isRemote: true,
    front: frontStore,
    charge: async (group, mode) => store.charge(group, mode),
    chargeOne: chargeOneAsGroup,
    adjust: async (group) => store.adjust(group),
    reset: async (group) => store.reset(group),
    close: async () => store.close(),
  }
}

describe('check', () => {
  it('answers with the eight fields of a decision', async () => {
    const clock = manualClock()
    const limiter = createLimiter({
      limit: tokenBucket({ limit: 10, per: '1s', burst: 20 }),
      clock,
    })
    expect(await limiter.check('user:42', { cost: 5 })).toEqual({
      allowed: true,
      limit: 20,
      remaining: 15,
      retryAfterMs: 0,
      resetAfterMs: 500,
      granted: 5,
      degraded: null,
      source: 'store',
    })
    expect(limiter.checkSync('user:42')).toMatchObject({ allowed: true, remaining: 14 })
  })

  it('admits exactly the limit of 1,000 concurrent calls', async () => {
    const limiter = createLimiter({ limit: hundred })
    const calls = Array.from({ length: 1_000 }, () => limiter.check('key'))
    expect((await Promise.all(calls)).filter(({ allowed }) => allowed)).toHaveLength(100)
  })

  it('answers the same through a store that is not synchronous', async () => {
    const limiter = createLimiter({ limit: hundred, store: remoteStore() })
    const calls = Array.from({ length: 200 }, () => limiter.check('key'))
    expect((await Promise.all(calls)).filter(({ allowed }) => allowed)).toHaveLength(100)
    expect(() => limiter.checkSync('key')).toThrow(/checkSync needs the memory store/)
  })

  it('grants in part', async () => {
    const limiter = createLimiter({ limit: hundred })
    await limiter.check('key', { cost: 93 })
    const partial = { allowed: true, granted: 7, remaining: 0 }
    expect(await limiter.check('key', { cost: 10, partial: true })).toMatchObject(partial)
    expect(limiter.checkSync('key', { cost: 10, partial: true })).toMatchObject({ allowed: false })
  })

  it('follows fake timers, because it reads Date at every call', async () => {
    const limiter = createLimiter({ limit: tokenBucket({ limit: 1, per: '1h' }) })
    const real = Date.now
    try {
      Date.now = () => 1_000_000
      limiter.checkSync('key')
      Date.now = () => 1_000_000 + 3_600_000
      expect(limiter.checkSync('key').allowed).toBe(true)
    } finally {
      Date.now = real
    }
  })

  it('tells which limits applied', async () => {
    const limiter = createLimiter({ limit: hundred, name: 'api' })
    const { decision, applied } = await limiter.evaluate('key')
    expect(applied).toEqual([{ name: 'api', limit: hundred, decision }])
  })
})

describe('peek, refund and reset', () => {
  it('peek tells what is left and whether the cost would pass, and changes nothing', async () => {
    const limiter = createLimiter({ limit: hundred, clock: manualClock() })
    await limiter.check('key', { cost: 98 })
    expect(await limiter.peek('key')).toMatchObject({ allowed: true, remaining: 2, granted: 0 })
    const denied = { allowed: false, remaining: 2, retryAfterMs: 36_000 }
    expect(await limiter.peek('key', { cost: 3 })).toMatchObject(denied)
    expect(await limiter.check('key', { cost: 2 })).toMatchObject({ allowed: true, remaining: 0 })
  })

  it('refund gives back one by default, and never more than was used', async () => {
    const limiter = createLimiter({ limit: hundred })
    await limiter.check('key', { cost: 50 })
    expect((await limiter.refund('key')).remaining).toBe(51)
    expect((await limiter.refund('key', 10)).remaining).toBe(61)
    expect((await limiter.refund('key', 1_000)).remaining).toBe(100)
    expect((await limiter.refund('never seen', 5)).remaining).toBe(100)
  })

  it('reset forgets', async () => {
    const limiter = createLimiter({ limit: hundred })
    await limiter.check('key', { cost: 100 })
    await limiter.reset('key')
    expect((await limiter.check('key', { cost: 100 })).allowed).toBe(true)
  })
})

describe('several limits', () => {
  const layered = () =>
    createLimiter({
      limits: {
        global: fixedWindow({ limit: 100, per: '1h' }),
        org: tokenBucket({ limit: 10, per: '1h' }),
        apiKey: slidingWindow({ limit: 5, per: '1h' }),
      },
    })

  it('are one step, and the most restrictive decides', async () => {
    const limiter = layered()
    const first = await limiter.check({ global: 'all', org: 'acme', apiKey: 'k1' }, { cost: 4 })
    expect(first).toMatchObject({ allowed: true, limit: 5, remaining: 1, granted: 4, violated: [] })
    expect(first.limits.org.remaining).toBe(6)
    expectTypeOf(first.limits).toEqualTypeOf<
      Readonly<Record<'global' | 'org' | 'apiKey', Decision>>
    >()
    const second = await limiter.check({ global: 'all', org: 'acme', apiKey: 'k2' }, { cost: 5 })
    expect(second).toMatchObject({ allowed: true, remaining: 0 })
    const third = limiter.checkSync({ global: 'all', org: 'acme', apiKey: 'k3' }, { cost: 2 })
    expect(third).toMatchObject({ allowed: false, violated: ['org'], granted: 0, limit: 10 })
    expect(third.retryAfterMs).toBe(third.limits.org.retryAfterMs)
    expect(third.limits.apiKey).toMatchObject({ allowed: true, remaining: 5 })
    expect(third.limits.global.remaining).toBe(91)
  })

  it('charge nothing where one of them denies', async () => {
    const limiter = layered()
    const keys = { global: 'all', org: 'acme', apiKey: 'k1' }
    for (let call = 0; call < 20; call++) await limiter.check(keys)
    const { limits } = await limiter.peek(keys)
    expect([limits.global, limits.org, limits.apiKey].map(({ remaining }) => remaining)).toEqual([
      95, 5, 0,
    ])
  })

  it('are refunded, reset and granted in part together', async () => {
    const limiter = layered()
    const keys = { global: 'all', org: 'acme', apiKey: 'k1' }
    expect((await limiter.check(keys, { cost: 50, partial: true })).granted).toBe(5)
    expect((await limiter.refund(keys, 2)).limits.org.remaining).toBe(7)
    await limiter.reset(keys)
    expect((await limiter.peek(keys)).limits.org.remaining).toBe(10)
  })

  it('want a key for each, and no other', async () => {
    const limiter = layered()
    const missing = { global: 'all', org: 'acme' } as Record<'global' | 'org' | 'apiKey', string>
    await expect(limiter.check(missing)).rejects.toThrow(/keys\.apiKey: got undefined/)
    const misspelt = { global: 'all', org: 'acme', apiKey: 'k', apikey: 'k' }
    await expect(limiter.check(misspelt)).rejects.toThrow(/keys\.apikey: .*global, org, apiKey/)
    const none = null as unknown as Record<'global' | 'org' | 'apiKey', string>
    await expect(limiter.check(none)).rejects.toThrow(/keys: got null, allowed: an object/)
  })
})

describe('limits that are functions', () => {
  const plans = { free: 2, pro: 5 }
  const count = async (call: () => Promise<Decision>) => {
    let admitted = 0
    while ((await call()).allowed) admitted++
    return admitted
  }

  it('know the key and the context of the call', async () => {
    const limiter = createLimiter({
      limit: (_key: string, context: { plan: keyof typeof plans }) =>
        tokenBucket({ limit: plans[context.plan], per: '1h' }),
    })
    const free = { context: { plan: 'free' } } as const
    const pro = { context: { plan: 'pro' } } as const
    expect(await count(() => limiter.check('a', free))).toBe(2)
    expect(await count(() => limiter.check('b', pro))).toBe(5)
    expect(await count(() => limiter.check('a', pro))).toBe(3)
    expect((await limiter.peek('a', pro)).limit).toBe(5)
  })

  it('may be asynchronous, and may stand for the units alone', async () => {
    const limit = tokenBucket({ limit: async (key: string) => (key === 'vip' ? 7 : 1), per: '1h' })
    const limiter = createLimiter({ limit })
    expect(await count(() => limiter.check('vip'))).toBe(7)
    expect(await count(() => limiter.check('other'))).toBe(1)
    expect(() => limiter.checkSync('vip')).toThrow(/the limit is asynchronous; use check/)
  })

  it('work with checkSync where they are synchronous', () => {
    const limiter = createLimiter({ limit: () => tokenBucket({ limit: 1, per: '1h' }) })
    expect(limiter.checkSync('a').allowed).toBe(true)
    expect(limiter.checkSync('a').allowed).toBe(false)
  })

  it('must return a limit', async () => {
    const limiter = createLimiter({ limit: () => 5 as never })
    await expect(limiter.check('a')).rejects.toThrow(
      /limits\.default: got 5, allowed: a limit made/,
    )
  })

  it('pass their errors on', async () => {
    const limiter = createLimiter({
      limit: () => {
        throw new Error('plan not found')
      },
    })
    await expect(limiter.check('a')).rejects.toThrow('plan not found')
  })
})

describe('wrong use', () => {
  const limiter = createLimiter({ limit: hundred })

  it.each([
    ['an empty key', ''],
    ['a number', 5],
    ['nothing', undefined],
    ['a key of more than 1 KiB', 'x'.repeat(1_025)],
    ['a short text of more than 1 KiB in UTF-8', '€'.repeat(342)],
  ])('refuses %s as a key', async (_, key) => {
    const call = limiter.check(key as string)
    await expect(call).rejects.toBeInstanceOf(TidegateError)
    await expect(call).rejects.toMatchObject({ code: 'invalid-key', path: 'key' })
    expect(() => limiter.checkSync(key as string)).toThrow(TidegateError)
  })

  it('takes a key of exactly 1 KiB', async () => {
    expect((await limiter.check('x'.repeat(1_024))).allowed).toBe(true)
    expect((await limiter.check(`${'€'.repeat(341)}x`)).allowed).toBe(true)
  })

  it.each([-1, Number.NaN, 0.5, 2 ** 53, Infinity, '1', null])(
    'refuses a cost of %s',
    async (cost) => {
      const call = limiter.check('key', { cost: cost as number })
      await expect(call).rejects.toMatchObject({ code: 'invalid-cost', path: 'cost', value: cost })
      expect(() => limiter.checkSync('key', { cost: cost as number })).toThrow(TidegateError)
      await expect(limiter.refund('key', cost as number)).rejects.toThrow(TidegateError)
      await expect(limiter.reserve('key', cost as number)).rejects.toThrow(TidegateError)
    },
  )

  it.each([
    [{}, /createLimiter\.limit: got undefined, allowed: a limit such as/],
    [{ limit: 5 }, /createLimiter\.limit: got 5/],
    [{ limit: hundred, limits: {} }, /either limit or limits/],
    [{ limits: {} }, /1 to 64 limits/],
    [{ limits: { 'bad name': hundred } }, /limits\.bad name: got "bad name", allowed: 1 to 64/],
    [{ limits: { a: 1 } }, /createLimiter\.limits\.a: got 1/],
    [{ limit: hundred, name: '' }, /createLimiter\.name/],
    [{ limit: hundred, burst: 5 }, /createLimiter\.burst: got 5, allowed: no option but/],
    [undefined, /createLimiter: got undefined, allowed: an object of options/],
  ])('refuses the options %o', (options, message) => {
    expect(() => createLimiter(options as never)).toThrow(message)
    expect(() => createLimiter(options as never)).toThrow(TidegateError)
  })

  it('refuses a cost that is not in the options, and charges nothing', async () => {
    const limiter = createLimiter({ limit: tokenBucket({ limit: 5, per: '1h' }) })
    const cost = 2 as never
    const hint = (call: string) => `${call}: got 2, allowed: an object of options: { cost: 2 }`
    await expect(limiter.check('key', cost)).rejects.toThrow(hint('check'))
    expect(() => limiter.checkSync('key', cost)).toThrow(hint('checkSync'))
    await expect(limiter.peek('key', cost)).rejects.toThrow(hint('peek'))
    await expect(limiter.evaluate('key', cost)).rejects.toThrow(hint('evaluate'))
    await expect(limiter.wait('key', cost)).rejects.toThrow(hint('wait'))
    for (const wrong of [null, '2', [2], true]) {
      await expect(limiter.check('key', wrong as never)).rejects.toThrow(/^check: got .* options$/)
    }
    await expect(limiter.reset('key', cost)).rejects.toThrow(/^reset: got 2, .* options$/)
    expect((await limiter.peek('key')).remaining).toBe(5)
  })

  it('refuses options that a call does not know', async () => {
    const misspelt = { costs: 5 } as never
    const message = /: got 5, allowed: no option but/
    await expect(limiter.check('key', misspelt)).rejects.toThrow(message)
    expect(() => limiter.checkSync('key', misspelt)).toThrow(/checkSync\.costs: got 5/)
    await expect(limiter.peek('key', misspelt)).rejects.toThrow(message)
    await expect(limiter.refund('key', 1, misspelt)).rejects.toThrow(message)
    await expect(limiter.reset('key', misspelt)).rejects.toThrow(message)
    await expect(limiter.reserve('key', 1, misspelt)).rejects.toThrow(message)
    await expect(limiter.acquire('key', misspelt)).rejects.toThrow(message)
    await expect(limiter.wait('key', misspelt)).rejects.toThrow(message)
    await expect(limiter.evaluate('key', misspelt)).rejects.toThrow(message)
  })

  it('refuses check on concurrency limits, and acquire on others', async () => {
    const slots = createLimiter({ limit: concurrency({ limit: 1, ttl: '1s' }) })
    await expect(slots.check('key')).rejects.toMatchObject({ code: 'wrong-use' })
    expect(() => slots.checkSync('key')).toThrow(/use acquire and release/)
    await expect(limiter.acquire('key')).rejects.toThrow(/acquire needs a concurrency limit/)
  })

  it('refuses everything after close', async () => {
    const closing = createLimiter({ limit: hundred })
    await closing.close()
    await closing.close()
    await expect(closing.check('key')).rejects.toMatchObject({ code: 'closed' })
    await expect(closing.peek('key')).rejects.toMatchObject({ code: 'closed' })
    expect(() => closing.checkSync('key')).toThrow(TidegateError)
  })

  it('does not close a store that it was given', async () => {
    const store = memoryStore()
    const one = createLimiter({ limit: hundred, store })
    const other = createLimiter({ limit: hundred, store })
    await one.check('key', { cost: 60 })
    await one.close()
    expect((await other.check('key', { cost: 60 })).allowed).toBe(false)
  })
})

describe('limits within another', () => {
  const two = tokenBucket({ limit: 2, per: '1h' })
  const limits = { everyone: hundred, org: hundred, user: two }

  it('count a user of one organisation apart from one of the same name in another', async () => {
    const limiter = createLimiter({ limits, within: 'org', shared: ['everyone'] })
    const ada = { everyone: 'all', org: 'acme', user: 'ada' }
    expect((await limiter.check(ada, { cost: 2 })).allowed).toBe(true)
    expect((await limiter.check(ada)).violated).toEqual(['user'])
    const other = await limiter.check({ ...ada, org: 'globex' })
    expect(other.allowed).toBe(true)
    expect(other.limits.everyone.remaining).toBe(97)
    expect(other.limits.org.remaining).toBe(99)
  })

  it('tell keys apart however they are cut', async () => {
    const limiter = createLimiter({ limits: { org: hundred, user: two }, within: 'org' })
    await limiter.check({ org: 'a:b', user: 'c' }, { cost: 2 })
    expect((await limiter.check({ org: 'a', user: 'b:c' })).allowed).toBe(true)
  })

  it.each([
    ['within', { limits, within: 'team' }, /^createLimiter\.within: got "team", allowed: 'every/],
    ['shared', { limits, within: 'org', shared: ['org'] }, /^createLimiter\.shared: got "org"/],
    ['shared', { limits, within: 'org', shared: 'user' }, /^createLimiter\.shared: got "user"/],
    ['shared alone', { limits, shared: ['org'] }, /^createLimiter\.shared: .* only with within$/],
    [
      'within of one',
      { limit: two, within: 'org' },
      /^createLimiter\.within: .* only with limits$/,
    ],
  ])('refuses a wrong %s', (_what, options, message) => {
    expect(() => createLimiter(options as never)).toThrow(message)
  })
})
