/**
 * How soon three regions share limits again after a cut: eu is cut off from the others, with
 * traffic. A mode has converged when every key that eu denied or refused at the end of the cut is
 * admitted there again.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../servers/until.ts'
import { type RegionGateway, startBackend, startRegionGateway } from './region-gateway.ts'
import { regionNames, startRegionWorld, type WorldOptions } from './region-world.ts'

export const sharingModes = ['shared', 'home', 'escrow'] as const

/** Milliseconds from the end of the cut. */
export type Converged = Readonly<Record<(typeof sharingModes)[number], number>>

export interface CutWorld {
  /** Cuts eu off, and measures after it. */
  cut(seconds: number): Promise<Converged>
  stop(): Promise<void>
}

/** A third of it is what eu has without the others, and uses up during the cut. */
const SHARED_LIMIT = 30
const LIMIT = 3_000
const KEYS = 6

// A request that no region decides in common is refused with 503, and not by a reserve.
const quota = { algorithm: 'fixedWindow', limit: LIMIT, per: 'month', onStoreError: 'closed' }
const strict = { reserve: 0, onCutOff: 'closed' }
const limits = [
  { ...quota, name: 'shared', limit: SHARED_LIMIT, regions: { mode: 'shared' } },
  { ...quota, name: 'home', regions: { mode: 'home', ...strict } },
  { ...quota, name: 'escrow', regions: { mode: 'escrow', ...strict } },
]

export async function startCutWorld(options: WorldOptions = {}): Promise<CutWorld> {
  const world = await startRegionWorld(options)
  const backend = await startBackend(world.here.host)
  const starting = regionNames.map((name) => startRegionGateway(world, name, backend, limits))
  const gateways = await Promise.all(starting)
  const eu = gateways.find(({ region }) => region === 'eu') as RegionGateway
  let round = 0
  return {
    async cut(seconds) {
      await until('all regions reach one another', async () => {
        const states = await Promise.all(gateways.map((gateway) => gateway.isConnected()))
        return states.every(Boolean)
      })
      round++
      const keys = Array.from({ length: KEYS }, (_, at) => `round ${round}, key ${at}`)
      await world.isolate('eu')
      await use(gateways, eu, keys, seconds)
      const lost = await keysLost(eu, keys)
      await world.heal()
      return converged(eu, lost)
    },
    async stop() {
      await Promise.all(gateways.map((gateway) => gateway.stop()))
      backend.stop()
      await world.stop()
    },
  }
}

/** Traffic during the cut. The others leave units of `shared` for eu, which it gets after it. */
async function use(
  gateways: readonly RegionGateway[],
  eu: RegionGateway,
  keys: readonly string[],
  seconds: number,
): Promise<void> {
  const endMs = performance.now() + seconds * 1_000
  while (performance.now() < endMs) {
    const asked = gateways.flatMap((gateway) => {
      const modes = gateway === eu ? sharingModes : (['home', 'escrow'] as const)
      return modes.flatMap((mode) => keys.map((key) => gateway.ask(mode, key)))
    })
    await Promise.all([...asked, sleep(500)])
  }
  // All of its share, however short the cut is.
  const rest = Array.from({ length: SHARED_LIMIT }, () => keys.map((key) => eu.ask('shared', key)))
  await Promise.all(rest.flat())
}

type Lost = Readonly<Record<(typeof sharingModes)[number], readonly string[]>>

/** In the modes of one home, keys of eu are decided in eu all the time. */
async function keysLost(eu: RegionGateway, keys: readonly string[]): Promise<Lost> {
  const ofMode = async (mode: string) => {
    const are = await Promise.all(keys.map((key) => isAdmitted(eu, mode, key)))
    const lost = keys.filter((_, at) => are[at] === false)
    if (mode === 'shared' && lost.length === 0) throw new Error('no key was denied in the cut')
    return lost
  }
  const [shared, home, escrow] = await Promise.all(sharingModes.map(ofMode))
  return { shared, home, escrow } as Lost
}

async function converged(eu: RegionGateway, lost: Lost): Promise<Converged> {
  const healedMs = performance.now()
  const untilAll = async (mode: (typeof sharingModes)[number]) => {
    const waiting = new Set(lost[mode])
    await until(`${mode} is shared again`, async () => {
      const asked = [...waiting].map(async (key) => {
        if (await isAdmitted(eu, mode, key)) waiting.delete(key)
      })
      await Promise.all(asked)
      return waiting.size === 0
    })
    return Math.round(performance.now() - healedMs)
  }
  const [shared, home, escrow] = await Promise.all(sharingModes.map(untilAll))
  return { shared, home, escrow } as Converged
}

async function isAdmitted(eu: RegionGateway, mode: string, key: string): Promise<boolean> {
  return (await eu.ask(mode, key)).status === 200
}
