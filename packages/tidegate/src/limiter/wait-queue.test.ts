import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type ManualClock, manualClock } from '../clock.ts'
import { concurrency, tokenBucket } from '../limits/limits.ts'
import { chargeOneAsGroup } from '../stores/charge-one.ts'
import { frontStore } from '../stores/front-store.ts'
import { memoryStore } from '../stores/memory/memory-store.ts'
import type { Store } from '../stores/store.ts'
import { createLimiter } from './create-limiter.ts'

const tenPerSecond = tokenBucket({ limit: 10, per: '1s', burst: 1 })

async function advance(clock: ManualClock, ms: number) {
  await turn()
  clock.advance(ms)
  await turn()
}

describe('wait', () => {
  it('resolves at once where there is room', async () => {
    const limiter = createLimiter({ limit: tenPerSecond })
    expect(await limiter.wait('key')).toMatchObject({ allowed: true, granted: 1 })
  })

  it('admits in the order of the calls, each at its time', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit: tenPerSecond, clock })
    const start = clock.now()
    const admitted: Array<[number, number]> = []
    const calls = [0, 1, 2, 3].map(async (call) => {
      const decision = await limiter.wait('key', { timeoutMs: 2_000 })
      if (decision.allowed) admitted.push([call, clock.now() - start])
    })
    for (let ms = 0; ms < 400; ms++) await advance(clock, 1)
    await Promise.all(calls)
    expect(admitted).toEqual([
      [0, 0],
      [1, 100],
      [2, 200],
      [3, 300],
    ])
  })

  it('denies who cannot be admitted in time, without waiting for nothing', async () => {
    const limiter = createLimiter({ limit: tenPerSecond, clock: manualClock() })
    await limiter.check('key')
    const denied = { allowed: false, retryAfterMs: 100 }
    expect(await limiter.wait('key', { timeoutMs: 50 })).toMatchObject(denied)
    expect(await limiter.wait('key', { cost: 2 })).toMatchObject({ retryAfterMs: Infinity })
  })

  it('denies who is still in line when the time is over', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit: tenPerSecond, clock })
    await limiter.check('key')
    const first = limiter.wait('key', { timeoutMs: 1_000 })
    const second = limiter.wait('key', { timeoutMs: 150 })
    await advance(clock, 100)
    expect((await first).allowed).toBe(true)
    await advance(clock, 50)
    expect((await second).allowed).toBe(false)
    await advance(clock, 50)
    expect((await limiter.check('key')).allowed).toBe(true)
  })

  it('denies at once who would be too many in line', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit: tenPerSecond, clock })
    await limiter.check('key')
    const calls = [1, 2, 3].map(() => limiter.wait('key', { queueMax: 2 }))
    expect(await calls[2]).toMatchObject({ allowed: false })
    expect((await limiter.wait('other', { queueMax: 0 })).allowed).toBe(true)
    expect((await limiter.wait('other', { queueMax: 0 })).allowed).toBe(false)
    await advance(clock, 100)
    await advance(clock, 100)
    expect((await Promise.all(calls)).map(({ allowed }) => allowed)).toEqual([true, true, false])
  })

  it('counts only those in the line who really wait', async () => {
    const limiter = createLimiter({ limit: tokenBucket({ limit: 200, per: '1h' }) })
    const calls = Array.from({ length: 300 }, () => limiter.wait('key', { timeoutMs: 0 }))
    expect((await Promise.all(calls)).filter(({ allowed }) => allowed)).toHaveLength(200)
  })

  it('never admits more than the limit', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit: tokenBucket({ limit: 10, per: '1s' }), clock })
    const calls = Array.from({ length: 50 }, () => limiter.wait('key', { timeoutMs: 2_550 }))
    for (let ms = 0; ms < 2_600; ms += 50) await advance(clock, 50)
    expect((await Promise.all(calls)).filter(({ allowed }) => allowed)).toHaveLength(35)
  })

  it('gives up with its signal, and lets the next one go on', async () => {
    const clock = manualClock()
    const limiter = createLimiter({ limit: tenPerSecond, clock })
    await limiter.check('key')
    const abort = new AbortController()
    const first = limiter.wait('key', { signal: abort.signal })
    const second = limiter.wait('key')
    await turn()
    abort.abort(new Error('client went away'))
    await expect(first).rejects.toThrow('client went away')
    await advance(clock, 100)
    expect((await second).allowed).toBe(true)
    await expect(limiter.wait('key', { signal: abort.signal })).rejects.toThrow('went away')
  })

  it('gives back what a call was granted after it had gone', async () => {
    const memory = memoryStore()
    const answer = Promise.withResolvers<void>()
    const slow: Store = {
      isRemote: true,
      front: frontStore,
      charge: (group, mode) => answer.promise.then(() => memory.charge(group, mode)),
      chargeOne: chargeOneAsGroup,
      adjust: async (group) => memory.adjust(group),
      reset: async (group) => memory.reset(group),
      close: () => memory.close(),
    }
    const limiter = createLimiter({ limit: tokenBucket({ limit: 1, per: '1h' }), store: slow })
    const abort = new AbortController()
    const call = limiter.wait('key', { signal: abort.signal })
    await turn()
    abort.abort(new Error('gone'))
    await expect(call).rejects.toThrow('gone')
    answer.resolve()
    await turn()
    expect((await limiter.peek('key')).remaining).toBe(1)
  })

  it('rejects those in line when the limiter is closed', async () => {
    const limiter = createLimiter({ limit: tenPerSecond, clock: manualClock() })
    await limiter.check('key')
    const calls = [limiter.wait('key'), limiter.wait('key')]
    await turn()
    await limiter.close()
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'closed' })
  })

  it('passes errors on', async () => {
    let isBroken = false
    const limiter = createLimiter({
      limit: () => {
        if (isBroken) throw new Error('no plan')
        return tenPerSecond
      },
    })
    await limiter.check('key')
    const call = limiter.wait('key')
    isBroken = true
    await expect(call).rejects.toThrow('no plan')
  })

  it.each([
    [{ timeoutMs: -1 }, /wait\.timeoutMs/],
    [{ timeoutMs: 2 ** 31 }, /wait\.timeoutMs/],
    [{ queueMax: 1.5 }, /wait\.queueMax/],
  ])('refuses %o', async (options, message) => {
    const limiter = createLimiter({ limit: tenPerSecond })
    await expect(limiter.wait('key', options)).rejects.toThrow(message)
  })

  it('is not for slots', async () => {
    const limiter = createLimiter({ limit: concurrency({ limit: 1, ttl: '1s' }) })
    await expect(limiter.wait('key')).rejects.toMatchObject({ code: 'wrong-use' })
  })
})
