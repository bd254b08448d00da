/**
 * How soon three regions share limits again after a link was cut: eu is cut off from the others for
 * a minute, with traffic. Argument: the seconds of the cut, instead of 60.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import {
  type RegionGateway,
  startBackend,
  startRegionGateway,
} from '../../test/support/regions/region-gateway.ts'
import { regionNames, startRegionWorld } from '../../test/support/regions/region-world.ts'
import { until } from '../../test/support/servers/until.ts'

const CUT_SECONDS = Number(process.argv[2] ?? 60)
const POLL_MS = 10
const LIMIT = 3_000
const KEYS = ['one', 'two', 'three', 'four', 'five', 'six']

// A request that no region decides in common is refused with 503, and not by a reserve.
const quota = { algorithm: 'fixedWindow', limit: LIMIT, per: 'month', onStoreError: 'closed' }
const strict = { reserve: 0, onCutOff: 'closed' }
const limits = [
  { ...quota, name: 'shared', limit: 90, regions: { mode: 'shared' } },
  { ...quota, name: 'home', regions: { mode: 'home', ...strict } },
  { ...quota, name: 'escrow', regions: { mode: 'escrow', ...strict } },
]

const world = await startRegionWorld()
const backend = await startBackend()
const gateways: RegionGateway[] = []
try {
  const starting = regionNames.map((name) => startRegionGateway(world, name, backend, limits))
  gateways.push(...(await Promise.all(starting)))
  await until('all regions reach one another', async () => {
    const states = await Promise.all(gateways.map((gateway) => gateway.isConnected()))
    return states.every(Boolean)
  })
  await measure()
} finally {
  await Promise.all(gateways.map((gateway) => gateway.stop()))
  backend.stop()
  await world.stop()
}

async function measure(): Promise<void> {
  const eu = gateways.find(({ region }) => region === 'eu') as RegionGateway
  const admits = async (name: string, key: string) => (await eu.ask(name, key)).status === 200
  await world.isolate('eu')
  const endMs = performance.now() + CUT_SECONDS * 1_000
  while (performance.now() < endMs) {
    const asked = gateways.flatMap((one) => {
      // The others leave units of `shared` for eu, which it gets when they have counted its own.
      const names = ['home', 'escrow', ...(one === eu ? ['shared'] : [])]
      return names.flatMap((name) => KEYS.map((key) => one.ask(name, key)))
    })
    await Promise.all(asked)
    await sleep(500)
  }
  // In the modes of one home, keys of eu are decided in eu all the time.
  const lost = await keysWhere(async (key) => !(await admits('home', key)))
  const leased = await keysWhere(async (key) => !(await admits('escrow', key)))
  // eu has used its share, and gets more when the others have counted it.
  const used = await keysWhere(async (key) => !(await admits('shared', key)))
  await world.heal()
  const healedMs = performance.now()
  const untilAll = async (name: string, keys: readonly string[]) => {
    const waiting = new Set(keys)
    while (waiting.size > 0) {
      for (const key of [...waiting]) if (await admits(name, key)) waiting.delete(key)
      await sleep(POLL_MS)
    }
    const tookMs = Math.round(performance.now() - healedMs)
    console.info(`${name}: ${keys.length} keys are shared again after ${tookMs} ms`)
  }
  await Promise.all([untilAll('shared', used), untilAll('home', lost), untilAll('escrow', leased)])
}

async function keysWhere(is: (key: string) => Promise<boolean>): Promise<string[]> {
  const found: string[] = []
  for (const key of KEYS) if (await is(key)) found.push(key)
  return found
}
