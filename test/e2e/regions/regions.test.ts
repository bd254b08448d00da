/** Limits of several regions with real Redis servers, 90 ms between regions, and cut links. */

import { type Charge, concurrency, fixedWindow } from 'tidegate'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import {
  type RegionNode,
  startRegionNodes,
  untilConnected,
} from '../../support/regions/region-node.ts'
import {
  type RegionName,
  type RegionWorld,
  regionNames,
  startRegionWorld,
} from '../../support/regions/region-world.ts'
import { until } from '../../support/servers/until.ts'

const LIMIT = 300

const limit = { key: { header: 'x-key' }, otherwise: 'skip', algorithm: 'fixedWindow' }
// A store that is too slow on a busy machine must not admit anything.
const quota = { ...limit, limit: LIMIT, per: 'month', onStoreError: 'closed' }

const limits = [
  { ...quota, name: 'partition', regions: { mode: 'partition' } },
  { ...quota, name: 'home', regions: { mode: 'home' } },
  { ...quota, name: 'escrow', regions: { mode: 'escrow' } },
  { ...quota, name: 'shared', regions: { mode: 'shared' } },
  {
    ...limit,
    algorithm: 'concurrency',
    name: 'slots',
    limit: 2,
    ttl: '1m',
    regions: { mode: 'home' },
  },
  { ...quota, name: 'closed', regions: { mode: 'home', reserve: 0, onCutOff: 'closed' } },
  { ...quota, name: 'local', regions: { mode: 'home', reserve: 0, onCutOff: 'local' } },
]

let world: RegionWorld
let nodes: Readonly<Record<RegionName, RegionNode>>

beforeAll(async () => {
  // Long, because a busy machine must not look like a region that is cut off.
  world = await startRegionWorld({ deadline: '5s' })
  nodes = await startRegionNodes(world, limits)
})

afterAll(async () => {
  await Promise.all(Object.values(nodes ?? {}).map((node) => node.stop()))
  await world?.stop()
})

/** Asks in all of these regions at once, and returns the admitted units of each. */
async function burst(
  name: string,
  key: string,
  calls: number,
  regions = regionNames as readonly RegionName[],
) {
  return Promise.all(
    regions.map(async (region) => {
      const asked = Array.from({ length: calls }, () => nodes[region].ask(name, key))
      return (await Promise.all(asked)).filter(({ allowed }) => allowed).length
    }),
  )
}

const sum = (counts: readonly number[]) => counts.reduce((one, other) => one + other, 0)

test.each(['partition', 'home', 'escrow'])(
  'a burst in all regions gets the limit with %s',
  async (name) => {
    const admitted = await burst(name, 'burst', LIMIT)
    expect(sum(admitted)).toBe(LIMIT)
  },
)

test('a region alone gets its share, or all but the reserve of the others', async () => {
  const alone = async (name: string) => sum(await burst(name, 'alone', 2 * LIMIT, ['us']))
  expect(await alone('partition')).toBe(LIMIT / 3)
  expect(await alone('home')).toBe(LIMIT - 20)
  // Blocks on their way hold units back for a moment.
  let leased = 0
  await until('escrow has all of it', async () => {
    leased += await alone('escrow')
    return leased >= LIMIT - 20
  })
  expect(leased).toBe(LIMIT - 20)
})

/** Units that the store of a region has charged; it decides otherwise if it is too slow. */
async function charged(key: string, regions: readonly RegionName[], calls: number) {
  const counts = await Promise.all(
    regions.map(async (region) => {
      const asked = Array.from({ length: calls }, () => nodes[region].ask('shared', key))
      const decisions = await Promise.all(asked)
      return decisions.filter(({ allowed, degraded }) => allowed && degraded === null).length
    }),
  )
  return sum(counts)
}

test('a region alone has most of a limit soon with shared, and not more', async () => {
  let admitted = 0
  await until('it has 90 % of the limit', async () => {
    admitted += await charged('alone', ['us'], LIMIT)
    return admitted >= 0.9 * LIMIT
  })
  expect(admitted).toBeLessThanOrEqual(LIMIT)
})

test('a region that is cut off has its share with shared, and not more', async () => {
  onTestFinished(() => world.heal())
  await world.isolate('eu')
  const cut = await charged('cut', ['eu'], LIMIT)
  expect(cut).toBe(LIMIT / 3)
  // The others wait for it.
  const others = await charged('cut', ['ap', 'us'], LIMIT)
  expect(others).toBeLessThanOrEqual((2 * LIMIT) / 3)
  await world.heal()
  await untilConnected(Object.values(nodes))
  let admitted = cut + others
  // A denial that counts of other regions may end has a short time to retry.
  await until('all regions know that the limit is used up', async () => {
    const asked = await Promise.all(regionNames.map((name) => nodes[name].ask('shared', 'cut')))
    admitted += asked.filter(({ allowed, degraded }) => allowed && degraded === null).length
    return asked.every(({ allowed, retryAfterMs }) => !allowed && retryAfterMs > 5_000)
  })
  expect(admitted).toBeGreaterThanOrEqual(0.9 * LIMIT)
  expect(admitted).toBeLessThanOrEqual(1.1 * LIMIT)
})

test('a group is charged everywhere or nowhere', async () => {
  const { store } = nodes.us.regions
  const counters = ['partition', 'home', 'escrow', 'shared'].map((name) => {
    return { name, key: 'group', limit: fixedWindow({ limit: LIMIT, per: 'month' }) }
  })
  const group = counters.map((counter) => ({ ...counter, cost: 3 }))
  const granted = await store.charge(group, 'all')
  expect(granted.map((decision) => decision.granted)).toEqual([3, 3, 3, 3])
  const denied = await store.charge(
    group.map((charge, at) => ({ ...charge, cost: at === 0 ? LIMIT : 3 })),
    'all',
  )
  expect(denied.map((decision) => decision.granted)).toEqual([0, 0, 0, 0])
  expect(denied[0]?.allowed).toBe(false)
  // Units that no other region has counted cost three of the parts that remain.
  const [ofShared] = await store.charge([{ ...counters[3], cost: 0 } as Charge], 'peek')
  expect(ofShared?.remaining).toBe(LIMIT - 3 * 3)
  // Nothing but the first call was charged: all the rest is left.
  const restOf = async (name: string) => {
    let admitted = 0
    await until(`the rest of ${name} is left`, async () => {
      admitted += sum(await burst(name, 'group', LIMIT))
      return admitted >= LIMIT - 3
    })
    return admitted
  }
  expect(await restOf('partition')).toBe(LIMIT - 3)
  expect(await restOf('home')).toBe(LIMIT - 3)
  // A block whose settlement is late is charged whole, so that some of it may be missing.
  expect(sum(await burst('escrow', 'group', LIMIT))).toBeLessThanOrEqual(LIMIT - 3)
})

test('slots are taken and given back at the home of their key', async () => {
  const slots = concurrency({ limit: 2, ttl: '1m' })
  const of = (region: RegionName, id: string) => {
    const slot = { name: 'slots', key: 'client', limit: slots, cost: 1 }
    const { store } = nodes[region].regions
    return {
      take: async () => store.charge([{ ...slot, hold: { id, ttlMs: 60_000 } }], 'all'),
      drop: async () => store.adjust([{ ...slot, units: 0, release: id }]),
    }
  }
  expect(await of('eu', 'one').take()).toMatchObject([{ allowed: true }])
  expect(await of('us', 'two').take()).toMatchObject([{ allowed: true }])
  expect(await of('ap', 'three').take()).toMatchObject([{ allowed: false }])
  await of('us', 'one').drop()
  expect(await of('ap', 'three').take()).toMatchObject([{ allowed: true }])
})

test('a reset forgets the units of all regions', async () => {
  await burst('home', 'reset', LIMIT)
  const limit = fixedWindow({ limit: LIMIT, per: 'month' })
  await nodes.ap.regions.store.reset([{ name: 'home', key: 'reset', limit }])
  // Other regions may repeat a denial for a second.
  let admitted = 0
  await until('all of it is there again', async () => {
    admitted += sum(await burst('home', 'reset', LIMIT))
    return admitted >= LIMIT
  })
  expect(admitted).toBe(LIMIT)
})

test('a region that is cut off has its reserve, and all together never more', async () => {
  const keys = ['a', 'b', 'c', 'd']
  await world.isolate('eu')
  const cut = await Promise.all(keys.map((key) => burst('home', key, LIMIT)))
  const eu = regionNames.indexOf('eu')
  for (const admitted of cut) {
    expect(sum(admitted)).toBeLessThanOrEqual(LIMIT)
    expect(admitted[eu]).toBeGreaterThanOrEqual(10)
  }
  // Some of the keys have their home in another region.
  const asked = keys.flatMap((key) => [nodes.eu.ask('closed', key), nodes.eu.ask('local', key)])
  const declared = (await Promise.all(asked)).map(({ degraded }) => degraded)
  // A look at a key has the decision that a charge would have: first by the reserve.
  const { store } = nodes.eu.regions
  const look = async (name: string, key: string) => {
    const limit = fixedWindow({ limit: LIMIT, per: 'month' })
    return (await store.charge([{ name, key, limit, cost: 1 }], 'peek'))[0]
  }
  const fresh = await Promise.all(['e', 'f', 'g', 'h'].map((key) => look('home', key)))
  expect(fresh.map((decision) => decision?.allowed)).toEqual([true, true, true, true])
  const used = await Promise.all(keys.map((key) => look('home', key)))
  expect(used.map((decision) => decision?.degraded)).toContainEqual({
    reason: 'region-cut-off',
    mode: 'local',
  })
  const local = await Promise.all(keys.map((key) => look('local', key)))
  expect(local.every((decision) => decision?.allowed)).toBe(true)
  await world.heal()
  await untilConnected(Object.values(nodes))
  const healed = await Promise.all(keys.map((key) => burst('home', key, LIMIT)))
  for (const [at, admitted] of healed.entries()) {
    expect(sum(cut[at] ?? []) + sum(admitted)).toBeLessThanOrEqual(LIMIT)
  }
  expect(declared).toContainEqual({ reason: 'region-cut-off', mode: 'closed' })
  expect(declared).toContainEqual({ reason: 'region-cut-off', mode: 'local' })
})
