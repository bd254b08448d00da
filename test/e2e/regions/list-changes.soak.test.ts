/**
 * A region is added, lost and removed by the steps of docs/regions.md, with real processes and
 * traffic in all regions all the time. In no window are more units admitted than the limit.
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

const LIMIT = 30
const WINDOW_MS = 2_000

/** A lost region's keys have another home after a window and 11 s. */
const MOVED_MS = WINDOW_MS + 11_000

/** Between two requests for a key in a region: two regions ask for more than the limit. */
const EVERY_MS = 100

const modes = ['partition', 'home', 'escrow'] as const
const keys = ['one', 'two', 'three', 'four']

const limits = modes.map((mode) => ({
  ...{ name: mode, algorithm: 'fixedWindow', limit: LIMIT, per: `${WINDOW_MS}ms` },
  ...{ onStoreError: 'closed', regions: { mode } },
}))

const without = regionNames.filter((name) => name !== 'us')

let world: RegionWorld
let backend: Backend
const gateways = new Map<RegionName, RegionGateway>()
/** Admitted units by mode, key and window. */
const admitted = new Map<string, number>()
const asked = new Set<Promise<void>>()
let traffic: NodeJS.Timeout

beforeAll(async () => {
  world = await startRegionWorld({ latencyMs: 5 })
  backend = await startBackend()
  traffic = setInterval(() => {
    for (const gateway of gateways.values()) {
      for (const mode of modes) for (const key of keys) begin(ask(gateway, mode, key))
    }
  }, EVERY_MS)
})

afterAll(async () => {
  clearInterval(traffic)
  await Promise.all(asked)
  await Promise.all([...gateways.values()].map((gateway) => gateway.stop()))
  backend?.stop()
  await world?.stop()
})

function begin(one: Promise<void>): void {
  asked.add(one)
  void one.finally(() => asked.delete(one))
}

/** Requests that are answered in another window than they were sent in count for neither. */
async function ask(gateway: RegionGateway, mode: string, key: string): Promise<void> {
  const window = windowNow()
  const { status } = await gateway.ask(mode, key)
  if (status !== 200 || windowNow() !== window) return
  const label = `${mode} ${key} ${window}`
  admitted.set(label, (admitted.get(label) ?? 0) + 1)
}

/** The stores of this machine have the same clock. */
function windowNow(): number {
  return Math.floor(Date.now() / WINDOW_MS)
}

async function start(region: RegionName, list: readonly RegionName[]): Promise<void> {
  const sections = (name: RegionName) => {
    const all = world.sections(name) as { regions: { list: Record<string, object> } }
    const listed = Object.entries(all.regions.list).filter(([one]) => list.includes(one as never))
    return { ...all, regions: { ...all.regions, list: Object.fromEntries(listed) } }
  }
  gateways.set(region, await startRegionGateway({ ...world, sections }, region, backend, limits))
}

async function restart(region: RegionName, list: readonly RegionName[]): Promise<void> {
  await gateways.get(region)?.stop()
  gateways.delete(region)
  await start(region, list)
}

async function untilConnected(): Promise<void> {
  await until('all regions reach one another', async () => {
    const states = await Promise.all([...gateways.values()].map((one) => one.isConnected()))
    return states.every(Boolean)
  })
}

/** No window had more than the limit, and every key has a home that answers. */
async function check(): Promise<void> {
  const first = windowNow() + 1
  const unitsIn = (window: number) =>
    modes.flatMap((mode) => keys.map((key) => admitted.get(`${mode} ${key} ${window}`) ?? 0))
  // No region has this many in its reserve or share. A busy machine may need some windows.
  await until('a window has most of the limit for each key', () => {
    for (let window = first; window < windowNow(); window++) {
      if (Math.min(...unitsIn(window)) > LIMIT / 2) return true
    }
    return false
  })
  console.info(`${unitsIn(windowNow() - 1).join(', ')} of ${LIMIT} in a window`)
  const over = [...admitted].filter(([, units]) => units > LIMIT)
  expect(over).toEqual([])
}

const windowOver = () => sleep(WINDOW_MS)

test('a region is added', async () => {
  for (const region of without) await start(region, without)
  await untilConnected()
  await check()
  for (const region of without) await restart(region, regionNames)
  await windowOver()
  await start('us', regionNames)
  await untilConnected()
  await check()
})

test('a region is lost and forgotten, and leaves the list', async () => {
  await gateways.get('us')?.kill()
  gateways.delete('us')
  const others = [...gateways.values()]
  await until('the others know that it is gone', async () => {
    const states = await Promise.all(others.map((one) => one.isConnected()))
    return !states.some(Boolean)
  })
  expect(await Promise.all(others.map((one) => one.forget('us')))).toEqual([200, 200])
  await sleep(MOVED_MS)
  for (const region of without) await restart(region, without)
  await untilConnected()
  await check()
})

test('a region is added again, and removed', async () => {
  for (const region of without) await restart(region, regionNames)
  await windowOver()
  await start('us', regionNames)
  await untilConnected()
  await check()
  await gateways.get('us')?.stop()
  gateways.delete('us')
  await windowOver()
  for (const region of without) await restart(region, without)
  await untilConnected()
  await check()
})
