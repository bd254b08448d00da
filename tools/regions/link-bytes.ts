/**
 * Bytes between regions for each decision, from the simulator: many decisions per second in three
 * regions, with keys by Zipf's law. Without TLS and HTTP/2, whose parts are small in messages that
 * carry hundreds of decisions.
 */

import type { Limit } from '../../packages/tidegate/src/algorithms/limit.ts'
import { fixedWindow, tokenBucket } from '../../packages/tidegate/src/limits/limits.ts'
import { forkedRandom } from '../../test/simulation/forked-random.ts'
import { HomeWorld } from '../../test/simulation/home/home-world.ts'
import { keyOf, SharedWorld } from '../../test/simulation/shared-world.ts'
import type { Timeline } from '../../test/simulation/timeline.ts'

const REGIONS = 3
const KEYS = 100_000
const DURATION_MS = 10_000
const STEP_MS = 10

/** Type and length of a frame. */
const FRAME_BYTES = 3

const link = { delayMs: 45, jitterMs: 5, loss: 0, duplication: 0, bytesPerMs: 1_000_000 }
const clocks = { offsetMsMax: 0, drift: 0 }
const nothing = () => {}

export interface LinkLoad {
  readonly mode: 'shared' | 'home' | 'escrow'
  readonly algorithm: 'fixedWindow' | 'tokenBucket'
  readonly limit: number
  /** In each region. */
  readonly perSecond: number
}

export async function bytesPerDecision(load: LinkLoad): Promise<number> {
  const make: (options: { limit: number; per: '60s' }) => Limit =
    load.algorithm === 'tokenBucket' ? tokenBucket : fixedWindow
  const limit = make({ limit: load.limit, per: '60s' })
  return load.mode === 'shared' ? ofShared(limit, load) : ofHome(limit, load.mode, load)
}

function ofShared(limit: Limit, load: LinkLoad): number {
  const world = new SharedWorld(
    {
      ...{ seed: 1, limit, shares: Array.from({ length: REGIONS }, () => 1), blind: 1 },
      ...{ floor: 0.25, keys: KEYS, link, ...clocks, exchangeMs: 200 },
    },
    { admitted: nothing, lost: nothing, stepped: nothing, checked: nothing },
  )
  world.start(DURATION_MS)
  const asked = ask(world.timeline, load, (region, key) => world.demand(region, keyOf(key), 1))
  world.timeline.runUntil(DURATION_MS)
  return world.network.bytes / asked()
}

async function ofHome(limit: Limit, mode: 'home' | 'escrow', load: LinkLoad): Promise<number> {
  const world = new HomeWorld(
    {
      ...{ seed: 1, mode, limit, isOneWindow: false, second: undefined, reserve: 10 },
      ...{ onCutOff: 'reserve', regions: REGIONS, nodes: 1, keys: KEYS, link, ...clocks },
      deadlineMs: 250,
    },
    { admitted: nothing, decided: nothing, lost: nothing, stepped: nothing },
  )
  const asked = ask(world.timeline, load, (region, key) => world.ask(region, key, 1))
  await world.runUntil(DURATION_MS)
  const { bytes, messages } = world.network
  return (bytes + FRAME_BYTES * messages) / asked()
}

/** Asks at a steady rate in every region; returns a function for the number of requests. */
function ask(
  timeline: Timeline,
  { perSecond }: LinkLoad,
  run: (region: number, key: number) => void,
): () => number {
  const ends: number[] = []
  for (let rank = 1; rank <= KEYS; rank++) ends.push((ends.at(-1) ?? 0) + rank ** -1.1)
  const random = forkedRandom(1, 'zipf')
  const perStep = (perSecond * STEP_MS) / 1_000
  let asked = 0
  for (let region = 0; region < REGIONS; region++) {
    timeline.every(STEP_MS, 0, DURATION_MS, () => {
      for (let count = 0; count < perStep; count++) {
        const point = (random.below(2 ** 30) / 2 ** 30) * (ends.at(-1) ?? 1)
        asked++
        run(region, firstAbove(ends, point))
      }
    })
  }
  return () => asked
}

function firstAbove(ends: readonly number[], point: number): number {
  let [low, high] = [0, ends.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ends[middle] as number) > point) high = middle
    else low = middle + 1
  }
  return low
}
