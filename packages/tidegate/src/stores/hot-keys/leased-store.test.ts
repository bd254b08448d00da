import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { fc } from '../../../../../test/support/fast-check.ts'
import { sizes } from '../../../../../test/support/suite.ts'
import type { Limit } from '../../algorithms/limit.ts'
import { fixedWindow, slidingWindow, tokenBucket } from '../../limits/limits.ts'
import { chargeOneAsGroup, chargeSingle } from '../charge-one.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { Store } from '../store.ts'
import { LeasedStore } from './leased-store.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_700_000_000_000 })
})

afterEach(() => {
  vi.useRealTimers()
})

/** A store as a remote one looks, that counts what it is asked and can lose answers. */
function remote(inner: Store = memoryStore()) {
  const fault = { losesAnswers: false, isDead: false }
  let calls = 0
  const answer = async <T>(call: () => T | Promise<T>): Promise<T> => {
    calls++
    if (fault.isDead) throw new Error('the process is dead')
    const settled = await call()
    if (fault.losesAnswers) throw new Error('the answer was lost')
    return settled
  }
  const store: Store = {
    isRemote: true,
    capabilities: { leases: true },
    charge: (group, mode) => answer(() => inner.charge(group, mode)),
    chargeOne: chargeOneAsGroup,
    adjust: (group) => answer(() => inner.adjust(group)),
    reset: (group) => answer(() => inner.reset(group)),
    close: () => undefined,
  }
  return { store, fault, calls: () => calls }
}

const limits = {
  tokenBucket: tokenBucket({ limit: 1000, per: '1s' }),
  burst: tokenBucket({ limit: 500, per: '1s', burst: 2000 }),
  fixedWindow: fixedWindow({ limit: 1000, per: '1s' }),
  slidingWindow: slidingWindow({ limit: 1000, per: '1s' }),
}

/** Throws as soon as more is admitted than the limit promises over any interval. */
function referee(limit: Limit): (now: number) => void {
  const used = memoryStore({ clock: { now: () => at, schedule: () => () => undefined } })
  let at = 0
  return (now) => {
    at = now
    const [decision] = used.charge([{ name: 'limit', limit, key: 'key', cost: 1 }], 'all')
    if (decision?.allowed !== true) throw new Error(`one too many at ${now}`)
  }
}

/** Limits whose units do not come back while a test runs. */
const longLimits = {
  hourlyBucket: tokenBucket({ limit: 4000, per: '1h' }),
  hourlyWindow: fixedWindow({ limit: 4000, per: '1h' }),
}

describe.each(Object.entries({ ...limits, ...longLimits }))(
  'several processes with blocks of %s',
  (_, limit) => {
    it('never admit more than the limit, whatever dies or is lost', async () => {
      const step = fc.record({
        node: fc.nat({ max: 3 }),
        calls: fc.nat({ max: 60 }),
        passMs: fc.nat({ max: 12 }),
        event: fc.oneof(
          { weight: 30, arbitrary: fc.constant('none' as const) },
          { weight: 2, arbitrary: fc.constantFrom('kill', 'kill', 'lose', 'pause') },
        ),
      })
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 100, maxLength: 400 }), async (steps) => {
          const inner = memoryStore()
          const admit = referee(limit)
          const nodes = Array.from({ length: 4 }, () => newNode(inner, limit))
          for (const { node, calls, passMs, event } of steps) {
            const before = nodes[node] as Node
            if (event === 'kill') before.fault.isDead = true
            if (event === 'kill') nodes[node] = newNode(inner, limit)
            const { check, fault } = nodes[node] as Node
            fault.losesAnswers = event === 'lose'
            for (let call = 0; call < calls; call += 4) {
              await Promise.all(Array.from({ length: 4 }, () => check(admit)))
            }
            fault.losesAnswers = false
            await vi.advanceTimersByTimeAsync(event === 'pause' ? 2_500 : passMs)
          }
        }),
        { numRuns: sizes.leasedHistories },
      )
    })
  },
)

type Node = ReturnType<typeof newNode>

function newNode(inner: Store, limit: Limit) {
  const { store, fault, calls } = remote(inner)
  const leased = new LeasedStore(store, undefined)
  const charge = async (key: string, cost: number) =>
    chargeSingle(leased, { name: 'limit', limit, key }, cost)
  const check = async (admit: (now: number) => void) => {
    const decision = await charge('key', 1).catch(() => undefined)
    if (decision?.allowed !== true) return false
    admit(Date.now())
    return true
  }
  return { leased, check, fault, calls }
}

describe('a hot key', () => {
  it('under its limit takes less than one call of the store for a hundred decisions', async () => {
    const limit = tokenBucket({ limit: 10_000_000, per: '1s' })
    const node = newNode(memoryStore(), limit)
    let admitted = 0
    for (let ms = 0; ms < 2_000; ms++) {
      for (let call = 0; call < 20; call++) if (await node.check(() => undefined)) admitted++
      await vi.advanceTimersByTimeAsync(1)
    }
    expect(admitted).toBe(40_000)
    expect(node.calls()).toBeLessThan(400)
  })

  it('has leased units, which the store behind counts as used', async () => {
    const limit = fixedWindow({ limit: 10_000_000, per: '1h' })
    const inner = memoryStore()
    const node = newNode(inner, limit)
    const counter = { name: 'limit', limit, key: 'key' }
    const leased = () => node.leased.capabilities.leasedOf?.(counter) ?? -1
    const used = () => {
      const [look] = inner.charge([{ ...counter, cost: 0 }], 'peek')
      return 10_000_000 - (look?.remaining ?? 0)
    }
    expect(leased()).toBe(0)
    let admitted = 0
    for (let ms = 0; ms < 200; ms++) {
      for (let call = 0; call < 20; call++) if (await node.check(() => undefined)) admitted++
      await vi.advanceTimersByTimeAsync(1)
    }
    expect(leased()).toBeGreaterThan(0)
    expect(used() - leased()).toBe(admitted)
  })

  it('that is exhausted is denied without the store until it may be had again', async () => {
    const limit = fixedWindow({ limit: 10, per: '1m' })
    const node = newNode(memoryStore(), limit)
    for (let call = 0; call < 10_000; call++) {
      await node.check(() => undefined)
      if (call % 100 === 0) await vi.advanceTimersByTimeAsync(1)
    }
    expect(node.calls()).toBeLessThan(30)
  })

  it('of a small limit is had to its last unit, also where others were after it', async () => {
    const { store } = remote()
    const nodes = Array.from({ length: 2 }, () => new LeasedStore(store, undefined))
    const charge = { name: 'limit', limit: fixedWindow({ limit: 250, per: '1h' }), key: 'key' }
    let admitted = 0
    for (let call = 0; call < 800; call++) {
      // Both for a while, which makes it hot for each, then one alone.
      const node = nodes[call < 220 ? call % nodes.length : 0] as LeasedStore
      const [decision] = await node.charge([{ ...charge, cost: 1 }], 'all')
      if (decision?.allowed) admitted++
    }
    expect(admitted).toBe(250)
    await Promise.all(nodes.map((node) => node.close()))
  })

  it('is told as hot although it is exhausted', async () => {
    const node = newNode(memoryStore(), fixedWindow({ limit: 10, per: '1m' }))
    for (let ms = 0; ms < 1_000; ms++) {
      for (let call = 0; call < 5; call++) await node.check(() => undefined)
      await vi.advanceTimersByTimeAsync(1)
    }
    const [hottest] = node.leased.capabilities.hotKeys?.() ?? []
    expect(hottest).toMatchObject({ name: 'limit', key: 'key' })
    expect(hottest?.perSecond).toBeGreaterThan(4_000)
    expect(hottest?.perSecond).toBeLessThan(6_000)
  })

  it('that is only warm takes a call for ten decisions where the limit is large', async () => {
    const node = newNode(memoryStore(), tokenBucket({ limit: 1_000_000, per: '1s' }))
    let admitted = 0
    for (let ms = 0; ms < 10_000; ms += 25) {
      if (await node.check(() => undefined)) admitted++
      await vi.advanceTimersByTimeAsync(25)
    }
    expect(admitted).toBe(400)
    expect(node.calls()).toBeLessThan(60)
  })

  it.each(Object.entries(limits))(
    'gives nearly all of the limit to eight: %s',
    async (_, limit) => {
      const inner = memoryStore()
      const admit = referee(limit)
      const nodes = Array.from({ length: 8 }, () => newNode(inner, limit))
      let admitted = 0
      const count = (now: number) => {
        admit(now)
        admitted++
      }
      for (let ms = 0; ms < 5_000; ms++) {
        for (const { check } of nodes) await Promise.all([check(count), check(count)])
        await vi.advanceTimersByTimeAsync(1)
      }
      const { algorithm } = limit
      const rate = algorithm === 'tokenBucket' ? (limit.limit * 1_000) / limit.perMs : limit.limit
      expect(admitted).toBeGreaterThanOrEqual(rate * 5 * 0.99)
    },
  )

  it('is given back when it cools down', async () => {
    const limit = fixedWindow({ limit: 100_000, per: '1h' })
    const inner = memoryStore()
    const node = newNode(inner, limit)
    let admitted = 0
    for (let ms = 0; ms < 1_000; ms++) {
      if (await node.check(() => undefined)) admitted++
      await vi.advanceTimersByTimeAsync(1)
    }
    await vi.advanceTimersByTimeAsync(500)
    const [look] = inner.charge([{ name: 'limit', limit, key: 'key', cost: 1 }], 'peek')
    expect(look?.remaining).toBe(100_000 - admitted)
  })
})

it('a group that was denied does not speak for one with other costs', async () => {
  const { store } = remote()
  const node = new LeasedStore(store, undefined)
  const limit = fixedWindow({ limit: 3, per: '1h' })
  const group = (cost: number) => [
    { name: 'one', limit, key: 'key', cost: 1 },
    { name: 'other', limit, key: 'key', cost },
  ]
  const isAllowed = async (cost: number) => {
    const decisions = await node.charge(group(cost), 'all')
    return decisions.every(({ allowed }) => allowed)
  }
  expect(await isAllowed(4)).toBe(false)
  expect(await isAllowed(2)).toBe(true)
  expect(await isAllowed(2)).toBe(false)
  expect(await isAllowed(1)).toBe(true)
  await node.close()
})
