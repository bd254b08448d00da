import { describe, expect, it } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import { TidegateError } from '../../errors.ts'
import { createLimiter } from '../../limiter/create-limiter.ts'
import { concurrency, fixedWindow, slidingWindow, tokenBucket } from '../../limits/limits.ts'
import { chargeOneAsGroup } from '../charge-one.ts'
import { frontStore } from '../front-store.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { MaybePromise, Store } from '../store.ts'

/** A store that several processes share, with a heartbeat, until it is down. */
function sharedStore() {
  const memory = memoryStore()
  const members = new Set<string>()
  const state = { isDown: false }
  const ask = async <T>(answer: () => MaybePromise<T>): Promise<T> => {
    if (state.isDown) throw new TidegateError('store-unreachable', 'it is down')
    return answer()
  }
  /** Each process has its own store on the one server. */
  const connect = (): Store => ({
    isRemote: true,
    front: frontStore,
    charge: (group, mode) => ask(() => memory.charge(group, mode)),
    chargeOne: chargeOneAsGroup,
    adjust: (group) => ask(() => memory.adjust(group)),
    reset: (group) => ask(() => memory.reset(group)),
    close: () => undefined,
    capabilities: {
      heartbeat: (id, lifetimeMs) =>
        ask(() => {
          if (lifetimeMs > 0) members.add(id)
          else members.delete(id)
          return members.size
        }),
    },
  })
  return Object.assign(state, { connect, members })
}

/** So that the store is asked every time. */
const breaker = { callsMin: 1_000_000 }

const local = { onStoreError: 'local', breaker } as const

describe('an outage', () => {
  it('is not a refill: a client with 4 of 10 left has 4 left', async () => {
    const server = sharedStore()
    const limit = fixedWindow({ limit: 10, per: 'day' })
    const limiter = createLimiter({ limit, store: server.connect(), ...local, nodes: 1 })
    await limiter.check('key', { cost: 6 })
    server.isDown = true
    const left = { allowed: true, remaining: 4, degraded: { mode: 'local' } }
    expect(await limiter.peek('key')).toMatchObject(left)
    expect(await limiter.check('key', { cost: 4 })).toMatchObject({ allowed: true, remaining: 0 })
    expect(await limiter.check('key')).toMatchObject({ allowed: false })
    expect(await limiter.check('another', { cost: 10 })).toMatchObject({ allowed: true })
  })

  it('is not a refill either for a store whose single charges are not groups', async () => {
    const server = sharedStore()
    const connected = server.connect()
    const store: Store = {
      ...connected,
      chargeOne: (counter, cost, done) => connected.chargeOne(counter, cost, done),
    }
    const limit = fixedWindow({ limit: 10, per: 'day' })
    const limiter = createLimiter({ limit, store, ...local, nodes: 1 })
    await limiter.check('key', { cost: 10 })
    server.isDown = true
    const denied = { allowed: false, degraded: { mode: 'local' } }
    expect(await limiter.check('key')).toMatchObject(denied)
  })

  it('leaves a process its share of the number of processes that was given', async () => {
    const server = sharedStore()
    const limit = fixedWindow({ limit: 9, per: 'day' })
    const limiter = createLimiter({ limit, store: server.connect(), ...local, nodes: 3 })
    server.isDown = true
    expect(await limiter.check('key', { cost: 3 })).toMatchObject({ allowed: true, limit: 3 })
    expect(await limiter.check('key')).toMatchObject({ allowed: false })
    expect(server.members.size).toBe(0)
  })

  it('knows what is left from a look, a refund and a denial as well', async () => {
    const server = sharedStore()
    const limit = fixedWindow({ limit: 10, per: 'day' })
    const connect = () => createLimiter({ limit, store: server.connect(), ...local, nodes: 1 })
    const [spends, looks, refunds, denied] = [connect(), connect(), connect(), connect()]
    await spends.check('key', { cost: 8 })
    await looks.peek('key')
    await denied.check('key', { cost: 5 })
    await refunds.refund('key', 1)
    server.isDown = true
    expect(await looks.check('key', { cost: 3 })).toMatchObject({ allowed: false, remaining: 2 })
    expect(await denied.check('key', { cost: 3 })).toMatchObject({ allowed: false, remaining: 2 })
    expect(await refunds.check('key', { cost: 4 })).toMatchObject({ allowed: false, remaining: 3 })
  })

  it('gives refunds back here, and resets only with the store', async () => {
    const server = sharedStore()
    const limit = tokenBucket({ limit: 10, per: '1d' })
    const limiter = createLimiter({ limit, store: server.connect(), ...local, nodes: 1 })
    server.isDown = true
    await limiter.check('key', { cost: 10 })
    expect(await limiter.refund('key', 3)).toMatchObject({ remaining: 3 })
    expect(await limiter.check('key', { cost: 3 })).toMatchObject({ allowed: true })
    await expect(limiter.reset('key')).rejects.toThrow('it is down')
    server.isDown = false
    await limiter.reset('key')
    server.isDown = true
    expect(await limiter.check('key', { cost: 10 })).toMatchObject({ allowed: true })
  })

  it('lets units be reserved and committed here, across its beginning and its end', async () => {
    const server = sharedStore()
    const limit = slidingWindow({ limit: 10, per: '1d' })
    const limiter = createLimiter({ limit, store: server.connect(), ...local, nodes: 1 })
    const before = await limiter.reserve('key', 4)
    server.isDown = true
    const during = await limiter.reserve('key', 4)
    expect(during).toMatchObject({ allowed: true, remaining: 2 })
    expect(await limiter.reserve('key', 4)).toMatchObject({ allowed: false })
    expect(await during.commit(1)).toMatchObject({ remaining: 5, degraded: { mode: 'local' } })
    await before.cancel()
    const after = await limiter.reserve('key', 3)
    server.isDown = false
    expect(await after.commit(2)).toMatchObject({ remaining: 4, degraded: null })
  })

  it('counts the slots that were taken before it until they are released', async () => {
    const server = sharedStore()
    const limit = concurrency({ limit: 3, ttl: '1h' })
    const limiter = createLimiter({ limit, store: server.connect(), ...local, nodes: 1 })
    const [first, second] = [await limiter.acquire('key'), await limiter.acquire('key')]
    server.isDown = true
    const third = await limiter.acquire('key')
    expect(third.allowed).toBe(true)
    expect(await limiter.acquire('key')).toMatchObject({ allowed: false, remaining: 0 })
    await first.release()
    const fourth = await limiter.acquire('key')
    expect(fourth.allowed).toBe(true)
    server.isDown = false
    for (const slot of [second, third, fourth]) await slot.release()
    server.isDown = true
    expect(await limiter.peek('key')).toMatchObject({ remaining: 3 })
  })

  it('leaves slots held that cannot be renewed, and renews them after its end', async () => {
    const server = sharedStore()
    const limit = concurrency({ limit: 1, ttl: '1h' })
    for (const onStoreError of ['open', 'closed', 'local'] as const) {
      const options = { store: server.connect(), breaker, onStoreError, nodes: 1 }
      const slot = await createLimiter({ limit, ...options }).acquire(onStoreError)
      server.isDown = true
      const during = await slot.renew()
      expect(during).toMatchObject({ allowed: true, degraded: { mode: onStoreError } })
      server.isDown = false
      expect(await slot.renew()).toMatchObject({ allowed: true, remaining: 0, degraded: null })
    }
  })

  it('goes on with every part of a layered limit by its own declaration', async () => {
    const server = sharedStore()
    const limits = {
      org: tokenBucket({ limit: 5, per: '1d', onStoreError: 'local' }),
      user: tokenBucket({ limit: 5, per: '1d' }),
    }
    const limiter = createLimiter({ limits, store: server.connect(), nodes: 1, breaker })
    server.isDown = true
    const keys = { org: 'acme', user: 'ada' }
    expect(await limiter.check(keys, { cost: 5 })).toMatchObject({ allowed: true, granted: 5 })
    const denied = await limiter.check(keys)
    expect(denied).toMatchObject({ allowed: false, granted: 0, violated: ['org'] })
    expect(denied.limits).toMatchObject({
      org: { degraded: { mode: 'local' } },
      user: { degraded: { mode: 'open' } },
    })
  })
})

describe('several processes without their store', () => {
  it('admit together what the limit allows, and no more', async () => {
    const server = sharedStore()
    const limit = tokenBucket({ limit: 100, per: '1d' })
    const processes = Array.from({ length: 3 }, () => {
      const counts: number[] = []
      const observer = (event: { type: string }) => {
        if ('count' in event) counts.push(event.count as number)
      }
      const store = server.connect()
      return { limiter: createLimiter({ limit, store, ...local, observer }), counts }
    })
    for (const { limiter } of processes) await limiter.check('key', { cost: 10 })
    await until('all know of all', () => processes.every(({ counts }) => counts.at(-1) === 3))
    for (const { limiter } of processes) await limiter.peek('key')
    server.isDown = true
    let admitted = 30
    for (let at = 0; at < 200; at++) {
      for (const { limiter } of processes) if ((await limiter.check('key')).allowed) admitted++
    }
    expect(admitted).toBeGreaterThan(90)
    expect(admitted).toBeLessThanOrEqual(100)
    server.isDown = false
    for (const { limiter } of processes) await limiter.close()
    expect(server.members.size).toBe(0)
  })

  it('each keep the whole limit as long as they know of no other', async () => {
    const server = sharedStore()
    server.isDown = true
    const limit = tokenBucket({ limit: 10, per: '1d' })
    const limiter = createLimiter({ limit, store: server.connect(), ...local })
    expect(await limiter.check('key', { cost: 10 })).toMatchObject({ allowed: true })
    await limiter.close()
  })
})
