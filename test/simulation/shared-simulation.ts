/** The mode `shared` under random incidents, with its invariants. */

import { capacityOf, type Limit } from '../../packages/tidegate/src/algorithms/limit.ts'
import {
  fixedWindow,
  slidingWindow,
  tokenBucket,
} from '../../packages/tidegate/src/limits/limits.ts'
import { regionBounds } from '../../packages/tidegate/src/stores/regions/bounds.ts'
import { between, chance, forkedRandom } from './forked-random.ts'
import { type Incident, randomIncidents } from './incidents.ts'
import { SharedCounts } from './shared-counts.ts'
import {
  keyOf,
  nameOf,
  type SharedSetup,
  SharedWorld,
  type SimulatedRegion,
} from './shared-world.ts'
import { Broken, type Plan, type Simulation, violationOf } from './simulation.ts'

export interface SharedPlan extends Plan {
  readonly setup: SharedSetup
  readonly trouble: number
  readonly durationMs: number
}

/** After the last incident, time for retries, masks and two exchanges. */
const QUIET_MS = 12_000

export const sharedSimulation: Simulation<SharedPlan> = {
  name: 'shared',

  plan(seed) {
    const random = forkedRandom(seed, 'plan')
    const regions = between(random, 2, 4)
    const perMs = random.pick([4_000, 12_000, 30_000])
    const units = random.pick([30, 200, 3_000])
    const trouble = random.below(3)
    // A short run is quiet within its only window, so that all counts can be compared.
    const isShort = perMs === 30_000 && chance(random, 0.5)
    const durationMs = isShort ? 8_000 : Math.min(3 * perMs, 36_000) - random.below(perMs >> 1)
    const delayMs = random.pick([1, 45, 100, trouble > 0 ? 3_000 : 45])
    const keys = random.pick([1, 3])
    const setup: SharedSetup = {
      seed,
      limit: limitOf(random.below(3), units, perMs),
      shares: Array.from({ length: regions }, () => random.pick([1, 1, 1, 2, 5])),
      blind: random.pick([1, 1, 1, regions]),
      floor: random.pick([0, 0.25]),
      keys,
      link: {
        delayMs,
        jitterMs: random.pick([0, delayMs >> 3, delayMs]),
        loss: trouble === 0 ? 0 : random.pick([0, 0.05, 0.3]),
        duplication: random.pick([0, 0.1]),
        bytesPerMs: random.pick([1, 125]),
      },
      offsetMsMax: trouble === 0 ? 0 : random.pick([0, 100, 500]),
      drift: trouble === 0 ? 0 : random.pick([0, 0.005]),
      exchangeMs: 200,
    }
    const incidents = randomIncidents(random, {
      regions,
      keys,
      durationMs,
      unitsMax: Math.max(2, units >> random.below(4)),
      trouble,
      stepMsMax: random.pick([500, perMs, 3_600_000]),
    })
    const isSplit = trouble === 0 && chance(random, 0.5)
    const split = isSplit ? splitLinks(between(random, 1, regions - 1), regions, durationMs) : []
    if (isShort && trouble === 2) return lossPlan(seed, setup, durationMs)
    const text = JSON.stringify(setup)
    return { seed, text, incidents: [...split, ...incidents], setup, trouble, durationMs }
  },

  run: (plan) => violationOf(() => run(plan)),
}

/** A region loses its store amid demand, and nothing else happens: all counts can be compared. */
function lossPlan(seed: number, setup: SharedSetup, durationMs: number): SharedPlan {
  const random = forkedRandom(seed, 'loss')
  const link = { ...setup.link, delayMs: 45, jitterMs: 0, loss: 0, bytesPerMs: 125 }
  const calm: SharedSetup = {
    ...setup,
    limit: limitOf(1, 3_000, 30_000),
    ...{ floor: 0, keys: 1, link, offsetMsMax: 0, drift: 0 },
  }
  const region = random.below(setup.shares.length)
  const incidents: Incident[] = [
    {
      ...{ kind: 'demand', atMs: 500, region, key: 0 },
      ...{ units: between(random, 1, 9), everyMs: 20, forMs: 5_000 },
    },
    { kind: 'crash', atMs: between(random, 1_000, 4_000), region, loses: 'store', forMs: 0 },
  ]
  return { seed, text: JSON.stringify(calm), incidents, setup: calm, trouble: 2, durationMs }
}

/** The first regions and the others cannot reach one another from the start on. */
function splitLinks(first: number, regions: number, forMs: number): Incident[] {
  const all = Array.from({ length: regions }, (_, region) => region)
  return all
    .flatMap((from) => all.map((to) => ({ from, to })))
    .filter(({ from, to }) => from < first !== to < first)
    .map((link) => ({ kind: 'cut', atMs: 0, forMs, ...link }))
}

function limitOf(kind: number, units: number, perMs: number): Limit {
  const options = { limit: units, per: `${perMs}ms` as const }
  if (kind === 0) return tokenBucket(options)
  return kind === 1 ? fixedWindow(options) : slidingWindow(options)
}

function run({ setup, incidents, durationMs, trouble }: SharedPlan): void {
  const shares = setup.shares.map((parts, index) => ({ name: nameOf(index), parts }))
  const { limit, blind } = setup
  const { overage } = regionBounds({ mode: 'shared', limit, regions: shares, blind })
  const counts = new SharedCounts(setup, overage, trouble === 0)
  const world = new SharedWorld(setup, counts)
  counts.watch(world)
  world.start(durationMs + QUIET_MS)
  world.play(incidents)
  world.timeline.runUntil(durationMs)
  world.network.healAll()
  counts.endsDemand()
  const last = incidents.findLast(({ kind }) => kind === 'demand')
  const endMs = Math.max(durationMs, last === undefined ? 0 : last.atMs)
  world.timeline.runUntil(endMs + QUIET_MS)
  counts.checkQuiet()
  // A counter from the future, before a clock stepped back, is found by the first request.
  for (const { index } of world.regions) world.demand(index, keyOf(0), 1)
  world.timeline.runUntil(endMs + QUIET_MS + counts.paybackMs())
  for (const { index } of world.regions) checkServes(world, index)
}

/** Blocked for longer than a window is a defect, if the share is at least one unit. */
function checkServes(world: SharedWorld, index: number): void {
  const { shared } = world.regions[index] as SimulatedRegion
  if (capacityOf(shared.counterLimit) < shared.costOf(1)) return
  if (world.demand(index, keyOf(0), 1) === 1) return
  throw new Broken(world.timeline.nowMs, `${nameOf(index)} is blocked after the window`)
}
