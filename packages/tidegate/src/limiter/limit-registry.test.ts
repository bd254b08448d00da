import { describe, expect, it } from 'vitest'
import type { Limit } from '../algorithms/limit.ts'
import { concurrency, fixedWindow, slidingWindow, tokenBucket } from '../limits/limits.ts'
import { memoryStore } from '../stores/memory/memory-store.ts'
import { createLimiter } from './create-limiter.ts'

const five = tokenBucket({ limit: 5, per: '1m' })
const hundred = tokenBucket({ limit: 100, per: '1m' })

describe('limits of one name on one store', () => {
  it('refuses a limit that differs, and says which', () => {
    const store = memoryStore()
    createLimiter({ limit: hundred, store })
    const create = () => createLimiter({ limit: five, store })
    expect(create).toThrow(
      'limit "default" is 5 per 1m here and 100 per 1m in another limiter on the same store',
    )
    expect(create).toThrow(expect.objectContaining({ code: 'wrong-use' }))
  })

  const differing: ReadonlyArray<readonly [string, Limit, Limit]> = [
    ['burst', five, tokenBucket({ limit: 5, per: '1m', burst: 9 })],
    ['period', five, tokenBucket({ limit: 5, per: '1h' })],
    ['parts', five, tokenBucket({ limit: 5, per: '1m', split: 2 })],
    ['windows', slidingWindow({ limit: 1, per: '1m' }), slidingWindow({ limit: 2, per: '1m' })],
    ['calendar', fixedWindow({ limit: 1, per: 'day' }), fixedWindow({ limit: 1, per: '1d' })],
    [
      'time zone',
      fixedWindow({ limit: 1, per: 'day' }),
      fixedWindow({ limit: 1, per: 'day', timeZone: 'Europe/Berlin' }),
    ],
    ['time of slots', concurrency({ limit: 1, ttl: '1m' }), concurrency({ limit: 1, ttl: '2m' })],
  ]
  for (const [what, one, other] of differing) {
    it(`refuses another ${what}`, () => {
      const store = memoryStore()
      createLimiter({ limits: { a: one }, store })
      expect(() => createLimiter({ name: 'a', limit: other, store })).toThrow('limit "a" is')
    })
  }

  it('shares the counters of equal limits, whatever holds while the store is away', async () => {
    const store = memoryStore()
    const one = createLimiter({ limit: five, store })
    const limit = tokenBucket({ limit: 5, per: '60s', onStoreError: 'closed', accuracy: 'exact' })
    const other = createLimiter({ limit, store })
    await one.check('ann', { cost: 3 })
    expect(await other.check('ann', { cost: 3 })).toMatchObject({ allowed: false, remaining: 2 })
  })

  it('keeps apart names, algorithms and stores', () => {
    const store = memoryStore()
    createLimiter({ limit: hundred, store })
    createLimiter({ limit: five, name: 'login', store })
    createLimiter({ limit: slidingWindow({ limit: 5, per: '1m' }), store })
    createLimiter({ limit: five, store: memoryStore() })
    createLimiter({ limit: five })
  })

  it('registers nothing of a limiter that was refused', () => {
    const store = memoryStore()
    createLimiter({ limits: { b: five }, store })
    expect(() => createLimiter({ limits: { a: five, b: hundred }, store })).toThrow('limit "b"')
    createLimiter({ limits: { a: hundred }, store })
  })

  it('ends with the last limiter that is closed', async () => {
    const store = memoryStore()
    const [one, other] = [
      createLimiter({ limit: five, store }),
      createLimiter({ limit: five, store }),
    ]
    await one.close()
    await one.close()
    expect(() => createLimiter({ limit: hundred, store })).toThrow('limit "default" is')
    await other.close()
    createLimiter({ limit: hundred, store })
  })

  it('warns once of a function that shares a name with another limit', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => warnings.push(warning)
    process.on('warning', onWarning)
    const store = memoryStore()
    const rule = tokenBucket({ limit: () => 5, per: '1m' })
    createLimiter({ name: 'plans', limit: rule, store })
    createLimiter({ name: 'plans', limit: rule, store })
    await new Promise(setImmediate)
    expect(warnings).toEqual([])
    createLimiter({ name: 'plans', limit: five, store })
    createLimiter({ name: 'plans', limit: tokenBucket({ limit: () => 9, per: '1m' }), store })
    await new Promise(setImmediate)
    process.off('warning', onWarning)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatchObject({ name: 'TidegateWarning', code: 'wrong-use' })
    expect(warnings[0]?.message).toContain('a limit named "plans"')
  })
})
