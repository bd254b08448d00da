/**
 * What the types of a limiter require. The compiler checks it: a line below `@ts-expect-error` that
 * compiles is an error. Calls that must not compile are not run.
 */

import type { Request } from 'express'
import { describe, expect, expectTypeOf, it } from 'vitest'
import type { Decision } from '../decision.ts'
import { concurrency, type LimitRule, tokenBucket } from '../limits/limits.ts'
import { tidegate } from '../middleware/express.ts'
import { tidegate as tidegateHono } from '../middleware/hono.ts'
import { createLimiter } from './create-limiter.ts'
import type { Limiter } from './limiter.ts'

interface Account {
  readonly plan: 'free' | 'pro'
}

const limitOf = (_key: string, { plan }: Account) => (plan === 'pro' ? 1_000 : 10)
const byPlan = tokenBucket({ limit: limitOf, per: '1h' })
const context: Account = { plan: 'pro' }

describe('a limit that takes a context', () => {
  const limiter = createLimiter({ limit: byPlan })

  it('is given one in every call', async () => {
    expect((await limiter.check('ada', { context })).limit).toBe(1_000)
    expect(limiter.checkSync('ada', { context, cost: 2 }).remaining).toBe(997)
    expect((await limiter.peek('ada', { context })).remaining).toBe(997)
    expect((await limiter.refund('ada', undefined, { context })).remaining).toBe(998)
    await (await limiter.reserve('ada', 5, { context })).cancel()
    expect((await limiter.wait('ada', { context, timeoutMs: 1 })).remaining).toBe(997)
    expect((await limiter.evaluate('ada', { context })).decision.remaining).toBe(996)
    await limiter.reset('ada', { context })
  })

  it('is missed by the compiler where it is left out', () => {
    const wrong = [
      // @ts-expect-error no context
      () => limiter.check('ada'),
      // @ts-expect-error options without context
      () => limiter.check('ada', { cost: 1 }),
      // @ts-expect-error not what the limit takes
      () => limiter.check('ada', { context: { plan: 'gold' } }),
      // @ts-expect-error no context
      () => limiter.checkSync('ada'),
      // @ts-expect-error no context
      () => limiter.peek('ada'),
      // @ts-expect-error no context
      () => limiter.refund('ada'),
      // @ts-expect-error no context
      () => limiter.refund('ada', 1),
      // @ts-expect-error no context
      () => limiter.reset('ada'),
      // @ts-expect-error no context
      () => limiter.reserve('ada', 1),
      // @ts-expect-error no context
      () => limiter.acquire('ada'),
      // @ts-expect-error no context
      () => limiter.wait('ada', { timeoutMs: 1 }),
      // @ts-expect-error no context
      () => limiter.evaluate('ada'),
    ]
    expect(wrong).toHaveLength(12)
  })

  it('makes the whole group need it', async () => {
    const all = tokenBucket({ limit: 5_000, per: '1h' })
    const group = createLimiter({ limits: { all, user: byPlan } })
    const keys = { all: 'all', user: 'ada' }
    expect((await group.check(keys, { context })).limits.user.limit).toBe(1_000)
    // @ts-expect-error no context
    expect(() => group.checkSync(keys)).toThrow(TypeError)
  })

  it('is needed by a rule and by a concurrency limit as well', async () => {
    const rule: LimitRule<Account> = (key, account) =>
      tokenBucket({ limit: limitOf(key, account), per: '1h' })
    expect((await createLimiter({ limit: rule }).check('ada', { context })).limit).toBe(1_000)
    const slots = createLimiter({ limit: concurrency({ limit: limitOf, ttl: '1m' }) })
    await (await slots.acquire('ada', { context })).release()
    // @ts-expect-error no context
    await expect(slots.acquire('ada')).rejects.toThrow(TypeError)
  })

  it('fits a middleware only if the request has what it takes', () => {
    const byHeader = createLimiter({
      limit: tokenBucket({
        limit: (_key, request: Request) => (request.get('x-plan') === 'pro' ? 1_000 : 10),
        per: '1h',
      }),
    })
    expect(tidegate({ limiter: byHeader })).toBeTypeOf('function')
    const wrong = [
      // @ts-expect-error a request is not an account
      () => tidegate({ limiter }),
      // @ts-expect-error a request is not an account
      () => tidegate({ limit: byPlan }),
      // @ts-expect-error a context of Hono is not a request of Express
      () => tidegateHono({ limiter: byHeader }),
    ]
    expect(wrong).toHaveLength(3)
  })
})

describe('a limit that takes no context', () => {
  it('needs none', async () => {
    const plain = createLimiter({ limit: tokenBucket({ limit: 5, per: '1h' }) })
    const byKey = createLimiter({
      limit: tokenBucket({ limit: (key) => key.length, per: '1h' }),
    })
    const optional = createLimiter({
      limit: (_key: string, account?: Account) =>
        tokenBucket({ limit: account === undefined ? 1 : 2, per: '1h' }),
    })
    for (const limiter of [plain, byKey, optional]) {
      await limiter.check('ada')
      await limiter.check('ada', { cost: 0 })
      await limiter.refund('ada')
    }
    expect((await optional.check('bob', { context })).limit).toBe(2)
  })

  it('has the type that ReturnType finds', () => {
    expectTypeOf<ReturnType<typeof createLimiter>>().toEqualTypeOf<Limiter<string, Decision>>()
    const limiters = new Map<string, ReturnType<typeof createLimiter>>()
    limiters.set('ada', createLimiter({ limit: tokenBucket({ limit: 5, per: '1h' }) }))
    expect(limiters.get('ada')?.checkSync('ada').allowed).toBe(true)
  })
})
