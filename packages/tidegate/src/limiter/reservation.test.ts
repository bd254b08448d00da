import { describe, expect, it } from 'vitest'
import { manualClock } from '../clock.ts'
import {
  concurrency,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../limits/limits.ts'
import { createLimiter } from './create-limiter.ts'

const limits = {
  tokenBucket: tokenBucket({ limit: 1_000, per: '1h' }),
  slidingWindow: slidingWindow({ limit: 1_000, per: '1h' }),
  slidingLog: slidingLog({ limit: 1_000, per: '1h' }),
  fixedWindow: fixedWindow({ limit: 1_000, per: '1h' }),
}

describe.each(Object.entries(limits))('a reservation on %s', (_, limit) => {
  it('charges what was really spent', async () => {
    const limiter = createLimiter({ limit, clock: manualClock() })
    const held = await limiter.reserve('key', 500, { ttlMs: 60_000 })
    expect(held).toMatchObject({ allowed: true, granted: 500, remaining: 500 })
    expect(await held.commit(320)).toMatchObject({ remaining: 680 })
    expect((await limiter.peek('key')).remaining).toBe(680)
  })

  it('gives everything back when it is cancelled', async () => {
    const limiter = createLimiter({ limit, clock: manualClock() })
    const held = await limiter.reserve('key', 500)
    await held.cancel()
    await held.cancel()
    expect((await limiter.peek('key')).remaining).toBe(1_000)
  })

  it('lapses after its time', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit, clock })
    await limiter.reserve('key', 900, { ttlMs: 10_000 })
    expect((await limiter.check('key', { cost: 200 })).retryAfterMs).toBe(10_000)
    clock.advance(10_000)
    expect((await limiter.check('key', { cost: 200 })).allowed).toBe(true)
  })
})

describe('a reservation', () => {
  const limit = limits.fixedWindow

  it('that is denied holds nothing and cannot be committed', async () => {
    const limiter = createLimiter({ limit })
    const held = await limiter.reserve('key', 1_001)
    expect(held).toMatchObject({ allowed: false, retryAfterMs: Infinity })
    await held.cancel()
    await expect(held.commit(5)).rejects.toMatchObject({ code: 'wrong-use' })
  })

  it('is committed once, for the whole by default; a cancel after it does nothing', async () => {
    const limiter = createLimiter({ limit })
    const held = await limiter.reserve('key', 100)
    expect((await held.commit()).remaining).toBe(900)
    await held.cancel()
    await expect(held.commit(1)).rejects.toMatchObject({ code: 'already-settled' })
    expect((await limiter.peek('key')).remaining).toBe(900)
  })

  it('charges more than was reserved, because it was spent', async () => {
    const limiter = createLimiter({ limit })
    const held = await limiter.reserve('key', 900)
    expect(await held.commit(1_200)).toMatchObject({ remaining: 0 })
    expect((await limiter.check('key')).allowed).toBe(false)
  })

  it('refuses a bad actual cost and stays open', async () => {
    const limiter = createLimiter({ limit })
    const held = await limiter.reserve('key', 100)
    await expect(held.commit(-1)).rejects.toMatchObject({ code: 'invalid-cost' })
    expect((await held.commit(10)).remaining).toBe(990)
  })

  it('counts in the window of its commit, so that no window has more than its limit', async () => {
    const clock = manualClock(3_590_000)
    const limiter = createLimiter({ limit, clock })
    const held = await limiter.reserve('key', 600)
    clock.advance(20_000)
    expect((await limiter.check('key', { cost: 500 })).allowed).toBe(false)
    expect((await limiter.check('key', { cost: 400 })).allowed).toBe(true)
    expect((await held.commit(600)).remaining).toBe(0)
  })

  it('is cancelled at the end of its scope', async () => {
    const limiter = createLimiter({ limit })
    {
      await using held = await limiter.reserve('key', 100)
      expect(held.remaining).toBe(900)
    }
    expect((await limiter.peek('key')).remaining).toBe(1_000)
  })

  it('spans several limits', async () => {
    const limiter = createLimiter({
      limits: {
        tokens: limits.tokenBucket,
        calls: concurrency({ limit: 1, ttl: '1m' }),
      },
    })
    const keys = { tokens: 'org', calls: 'user' }
    const held = await limiter.reserve(keys, 500)
    expect(await limiter.reserve(keys, 1)).toMatchObject({ allowed: false, violated: ['calls'] })
    expect((await held.commit(200)).limits.tokens.remaining).toBe(800)
    expect((await limiter.reserve(keys, 1)).allowed).toBe(true)
  })

  it.each([0, -5, 1.5, Infinity])('refuses a ttlMs of %s', async (ttlMs) => {
    const limiter = createLimiter({ limit })
    await expect(limiter.reserve('key', 1, { ttlMs })).rejects.toThrow(/reserve\.ttlMs: got/)
  })
})

describe('a slot', () => {
  const limit = concurrency({ limit: 10, ttl: '30s' })

  it('is one of ten, and free again when released', async () => {
    const limiter = createLimiter({ limit })
    const slots = await Promise.all(Array.from({ length: 25 }, () => limiter.acquire('key')))
    expect(slots.filter(({ allowed }) => allowed)).toHaveLength(10)
    await slots[0]?.release()
    await slots[0]?.release()
    expect((await limiter.peek('key')).remaining).toBe(1)
    expect((await limiter.acquire('key')).allowed).toBe(true)
    expect((await limiter.acquire('key')).allowed).toBe(false)
  })

  it('that was denied has nothing to release', async () => {
    const limiter = createLimiter({ limit: concurrency({ limit: 1, ttl: '30s' }) })
    await limiter.acquire('key')
    const denied = await limiter.acquire('key')
    await denied.release()
    expect((await limiter.acquire('key')).allowed).toBe(false)
  })

  it('expires when it is never released', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit, clock })
    for (let slot = 0; slot < 10; slot++) await limiter.acquire('key')
    expect((await limiter.acquire('key')).retryAfterMs).toBe(30_000)
    clock.advance(30_000)
    expect((await limiter.peek('key')).remaining).toBe(10)
  })

  it('stays held while it is renewed', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit: concurrency({ limit: 1, ttl: '30s' }), clock })
    const slot = await limiter.acquire('key')
    for (let renewal = 0; renewal < 10; renewal++) {
      clock.advance(29_999)
      expect(await slot.renew()).toMatchObject({ allowed: true, remaining: 0, degraded: null })
    }
    expect((await limiter.acquire('key')).retryAfterMs).toBe(30_000)
    clock.advance(30_000)
    expect((await limiter.acquire('key')).allowed).toBe(true)
  })

  it('is not taken back by a renewal after its time, nor after its release', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit: concurrency({ limit: 1, ttl: '30s' }), clock })
    const late = await limiter.acquire('key')
    clock.advance(30_000)
    expect((await late.renew()).allowed).toBe(false)
    const other = await limiter.acquire('key')
    expect((await late.renew()).allowed).toBe(false)
    await late.release()
    expect((await limiter.peek('key')).remaining).toBe(0)
    await other.release()
    expect((await other.renew()).allowed).toBe(false)
    expect((await limiter.peek('key')).remaining).toBe(1)
  })

  it('stays held by a renewal although the limit is lower by then', async () => {
    let most = 2
    const rule = () => concurrency({ limit: most, ttl: '30s' })
    const limiter = createLimiter({ limit: rule })
    const slots = [await limiter.acquire('key'), await limiter.acquire('key')]
    most = 1
    for (const slot of slots) expect((await slot.renew()).allowed).toBe(true)
    await slots[0]?.release()
    expect((await limiter.acquire('key')).allowed).toBe(false)
  })

  it('beside a rate charges nothing to it by a renewal', async () => {
    const limiter = createLimiter({
      limits: { rate: fixedWindow({ limit: 3, per: '1h' }), inFlight: limit },
    })
    const slot = await limiter.acquire({ rate: 'user', inFlight: 'user' })
    const { allowed, limits } = await slot.renew()
    expect([allowed, limits.rate.remaining, limits.inFlight.remaining]).toEqual([true, 2, 9])
  })

  it('stands beside a rate, which it charges too', async () => {
    const limiter = createLimiter({
      limits: { rate: fixedWindow({ limit: 3, per: '1h' }), inFlight: limit },
    })
    const keys = { rate: 'user', inFlight: 'user' }
    const slot = await limiter.acquire(keys)
    await slot.release()
    const { limits } = await limiter.peek(keys)
    expect([limits.rate.remaining, limits.inFlight.remaining]).toEqual([2, 10])
  })

  it('is released at the end of its scope', async () => {
    const limiter = createLimiter({ limit })
    {
      await using slot = await limiter.acquire('key')
      expect(slot.remaining).toBe(9)
    }
    expect((await limiter.peek('key')).remaining).toBe(10)
  })
})
