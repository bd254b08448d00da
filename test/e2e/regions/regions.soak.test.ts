/**
 * Three regions of real processes, 90 ms apart: the table of what each mode admits in bursts, while
 * links are cut and after a process was killed. Times are printed, not asserted.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Backend,
  type RegionGateway,
  startBackend,
  startRegionGateway,
} from '../../support/regions/region-gateway.ts'
import {
  type RegionName,
  type RegionWorld,
  regionNames,
  startRegionWorld,
} from '../../support/regions/region-world.ts'
import { until } from '../../support/servers/until.ts'

const LIMIT = 300

/** A limit of a short window, so that the keys of a lost region have another home soon. */
const SHORT_LIMIT = 20
// A store that is too slow on a busy machine must not admit anything.
const quota = { algorithm: 'fixedWindow', limit: LIMIT, per: 'month', onStoreError: 'closed' }
const strict = ['partition', 'home', 'escrow'] as const

const limits = [
  ...strict.map((mode) => ({ ...quota, name: mode, regions: { mode } })),
  { ...quota, name: 'escrow-all', regions: { mode: 'escrow', reserve: 0 } },
  { ...quota, name: 'shared', regions: { mode: 'shared' } },
  { ...quota, name: 'short', limit: SHORT_LIMIT, per: '2s', regions: { mode: 'home', reserve: 0 } },
  { ...quota, name: 'warm', limit: 6_000, per: '1h', regions: { mode: 'escrow' } },
]

let world: RegionWorld
let backend: Backend
let gateways: Readonly<Record<RegionName, RegionGateway>>

beforeAll(async () => {
  // Long, because a busy machine must not look like a region that is cut off.
  world = await startRegionWorld({ deadline: '5s' })
  backend = await startBackend()
  const started = await Promise.all(
    regionNames.map((name) => startRegionGateway(world, name, backend, limits)),
  )
  gateways = Object.fromEntries(started.map((one) => [one.region, one])) as never
  await untilConnected()
})

afterAll(async () => {
  await Promise.all(Object.values(gateways ?? {}).map((gateway) => gateway.stop()))
  backend?.stop()
  await world?.stop()
})

async function untilConnected(): Promise<void> {
  await until('all regions reach one another', async () => {
    const states = await Promise.all(Object.values(gateways).map((one) => one.isConnected()))
    return states.every(Boolean)
  })
}

interface Load {
  readonly regions?: readonly RegionName[]
  readonly perSecond: number
  readonly forMs: number
}

/** Requests in all of these regions at a steady rate; returns the admitted ones of each region. */
async function load(name: string, key: string, { regions = regionNames, perSecond, forMs }: Load) {
  const admitted = new Map<RegionName, number>(regionNames.map((region) => [region, 0]))
  const tookMs: number[] = []
  let refused = 0
  const asked: Promise<void>[] = []
  const ask = async (region: RegionName) => {
    const { status, tookMs: took } = await gateways[region].ask(name, key)
    tookMs.push(took)
    if (status === 200) admitted.set(region, (admitted.get(region) ?? 0) + 1)
    else if (status !== 429) refused++
  }
  const startMs = performance.now()
  for (let sent = 0; performance.now() - startMs < forMs; ) {
    const due = ((performance.now() - startMs) * perSecond) / 1_000
    for (; sent < due; sent++) for (const region of regions) asked.push(ask(region))
    await sleep(5)
  }
  await Promise.all(asked)
  const total = [...admitted.values()].reduce((sum, one) => sum + one, 0)
  tookMs.sort((one, other) => one - other)
  const at = (part: number) => tookMs[Math.floor(tookMs.length * part)] ?? 0
  return { admitted, total, refused, p50: at(0.5), p99: at(0.99), calls: tookMs.length }
}

/**
 * Parts of the limit that a burst gets. A lease at the home of an `escrow` key whose process stalls
 * for 2 s is charged whole.
 */
const least = { partition: 1, home: 0.99, escrow: 0.9 }

test('a burst of ten times the limit in all regions gets the limit', async () => {
  await each(strict, async (mode) => {
    const { total, refused } = await load(mode, 'burst', { perSecond: 200, forMs: 5_000 })
    const unsure = refused + (await cutOffs(mode))
    console.info(`${mode}: burst in all regions: ${total} of ${LIMIT}, ${unsure} not sure`)
    expect(total).toBeLessThanOrEqual(LIMIT)
    // On a machine that stalls, a store or a home may charge a unit and answer too late.
    expect(total + unsure).toBeGreaterThanOrEqual(least[mode] * LIMIT)
  })
})

test('no limit is exceeded while a region is cut off, and after it is back', async () => {
  await world.isolate('eu')
  const cut = await each(strict, (mode) => load(mode, 'cut', { perSecond: 15, forMs: 6_000 }))
  await world.heal()
  await untilConnected()
  const healed = await each(strict, (mode) => load(mode, 'cut', { perSecond: 50, forMs: 4_000 }))
  for (const [at, mode] of strict.entries()) {
    const parts = [cut[at], healed[at]].map((one) => one?.total ?? 0)
    console.info(`${mode}: during and after a cut: ${parts.join(' + ')} of ${LIMIT}`)
    expect(parts.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(LIMIT)
    expect(cut[at]?.admitted.get('eu')).toBeGreaterThanOrEqual(LIMIT / 30)
  }
})

test('no limit is exceeded after a process was killed', async () => {
  const first = each(strict, (mode) => load(mode, 'killed', { perSecond: 20, forMs: 3_000 }))
  await sleep(1_500)
  await gateways.us.kill()
  const before = await first
  await gateways.us.start()
  await untilConnected()
  const after = await each(strict, (mode) => load(mode, 'killed', { perSecond: 60, forMs: 3_000 }))
  for (const [at, mode] of strict.entries()) {
    const parts = [before[at], after[at]].map((one) => one?.total ?? 0)
    console.info(`${mode}: before and after a kill: ${parts.join(' + ')} of ${LIMIT}`)
    expect(parts.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(LIMIT)
  }
})

test('a region alone gets the promised part', async () => {
  const parts = { partition: 1 / 3, home: 0.93, escrow: 0.93, 'escrow-all': 0.99 }
  await each(Object.entries(parts), async ([name, part]) => {
    const { total } = await load(name, 'alone', { regions: ['us'], perSecond: 150, forMs: 5_000 })
    console.info(`${name}: a region alone: ${total} of ${LIMIT}`)
    expect(total).toBeGreaterThanOrEqual(Math.floor(part * LIMIT))
    expect(total).toBeLessThanOrEqual(LIMIT)
  })
})

test('escrow decides about keys in use without the link', async () => {
  const keys = Array.from({ length: 8 }, (_, at) => `warm ${at}`)
  const bytes = await world.bytes()
  const runs = await Promise.all(
    keys.map((key) => load('warm', key, { perSecond: 20, forMs: 6_000 })),
  )
  const calls = runs.reduce((sum, one) => sum + one.calls, 0)
  const counts = await Promise.all(Object.values(gateways).map((one) => decisionsOf(one, 'warm')))
  const of = (by: string) => counts.reduce((sum, one) => sum + (one.get(by) ?? 0), 0)
  const perCall = ((await world.bytes()) - bytes) / calls
  const p99 = Math.max(...runs.map((one) => one.p99))
  console.info(
    `escrow: ${calls} calls: pool ${of('pool')}, reserve ${of('reserve')}, home ${of('home')}, ` +
      `link ${of('link')}; ${perCall.toFixed(1)} bytes each; p99 ${p99.toFixed(1)} ms`,
  )
  expect(of('pool')).toBeGreaterThan(calls / 3)
  expect(of('link') + of('cut-off')).toBeLessThanOrEqual(calls / 1_000)
})

/** Far below the bound of 500 that `check` states: nothing but a defect reaches it. */
const SHARED_MOST = 1.1 * LIMIT

test('shared: a burst of ten times the limit in all regions', async () => {
  const { total } = await load('shared', 'burst', { perSecond: 300, forMs: 3_500 })
  console.info(`shared: burst in all regions: ${total} of ${LIMIT}`)
  expect(total).toBeGreaterThanOrEqual(0.9 * LIMIT)
  expect(total).toBeLessThanOrEqual(SHARED_MOST)
})

test('shared: a region is cut off, is back, and all regions ask again', async () => {
  await world.isolate('eu')
  const cut = await load('shared', 'cut', { perSecond: 60, forMs: 4_000 })
  await world.heal()
  await untilConnected()
  const healed = await load('shared', 'cut', { perSecond: 60, forMs: 4_000 })
  console.info(`shared: during and after a cut: ${cut.total} + ${healed.total} of ${LIMIT}`)
  // Its share, and not more; the others wait for it, and have theirs.
  expect(cut.admitted.get('eu')).toBeLessThanOrEqual(LIMIT / 3)
  expect(cut.total).toBeLessThanOrEqual(LIMIT)
  expect(cut.total + healed.total).toBeGreaterThanOrEqual(0.8 * LIMIT)
  expect(cut.total + healed.total).toBeLessThanOrEqual(SHARED_MOST)
})

test('shared: the exchanger of a region is killed and started again', async () => {
  const first = load('shared', 'killed', { perSecond: 30, forMs: 3_000 })
  await sleep(1_500)
  await gateways.us.kill()
  const before = await first
  await gateways.us.start()
  await untilConnected()
  const after = await load('shared', 'killed', { perSecond: 60, forMs: 3_000 })
  console.info(`shared: before and after a kill: ${before.total} + ${after.total} of ${LIMIT}`)
  expect(before.total + after.total).toBeLessThanOrEqual(SHARED_MOST)
})

test('shared: a region alone gets nine tenths, and the others nothing of them', async () => {
  let alone = 0
  await until('it has 90 %', async () => {
    alone += (await load('shared', 'alone', { regions: ['us'], perSecond: 150, forMs: 500 })).total
    return alone >= 0.9 * LIMIT
  })
  await until('the other regions know of them', async () => {
    const { total } = await load('shared', 'alone', { perSecond: 20, forMs: 500 })
    alone += total
    return total === 0
  })
  console.info(`shared: a region alone, then all: ${alone} of ${LIMIT}`)
  expect(alone).toBeLessThanOrEqual(SHARED_MOST)
})

test('keys of a lost region have another home after it is forgotten', async () => {
  const keys = Array.from({ length: 8 }, (_, at) => `lost ${at}`)
  expect(await gateways.eu.forget('us')).toBe(409)
  await gateways.us.kill()
  const others = [gateways.ap, gateways.eu]
  await until('the others know that it is gone', async () => {
    const states = await Promise.all(others.map((one) => one.isConnected()))
    return !states.some(Boolean)
  })
  const admits = async (key: string) => (await gateways.eu.ask('short', key)).status === 200
  // Its keys are denied, and those of other regions are not.
  const ofLost: string[] = []
  for (const key of keys) if (!(await admits(key))) ofLost.push(key)
  const statuses = await Promise.all(others.map((one) => one.forget('us')))
  expect(statuses).toEqual([200, 200])
  await until('every key has a home', async () => {
    return (await Promise.all(ofLost.map(admits))).every(Boolean)
  })
  // Both regions count at the same home: together they have the limit in every window.
  const [key = keys[0] as string] = ofLost
  const { total } = await load('short', key, {
    ...{ regions: ['ap', 'eu'], perSecond: 30, forMs: 3_500 },
  })
  console.info(`home: ${ofLost.length} of ${keys.length} keys were lost; then ${total} in 3.5 s`)
  expect(total).toBeGreaterThan(0)
  // Requests that wait on a busy machine can reach another window or two.
  expect(total).toBeLessThanOrEqual(5 * SHORT_LIMIT)
})

/** Runs all of them at the same time: they have different counters. */
function each<T, U>(all: readonly T[], run: (one: T) => Promise<U>): Promise<U[]> {
  return Promise.all(all.map(run))
}

/** Decisions of all regions without the home of the key. */
async function cutOffs(limit: string): Promise<number> {
  const counts = await Promise.all(Object.values(gateways).map((one) => decisionsOf(one, limit)))
  return counts.reduce((sum, one) => sum + (one.get('cut-off') ?? 0), 0)
}

/** Decisions of a limit by how they were made. */
async function decisionsOf(
  gateway: RegionGateway,
  limit: string,
): Promise<ReadonlyMap<string, number>> {
  const labels = `limit="${limit}",mode="\\w+",by="([\\w-]+)"`
  const pattern = new RegExp(`^tidegate_region_decisions_total\\{${labels}\\} (\\d+)`, 'gm')
  const found = (await gateway.metrics()).matchAll(pattern)
  return new Map(Array.from(found, ([, by = '', count]) => [by, Number(count)]))
}
