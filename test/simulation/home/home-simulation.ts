/** The modes `home` and `escrow` under random incidents, with their invariants. */

import { fixedWindow, type Limit, tokenBucket } from 'tidegate'
import { ESCROW_UNITS_PER_REGION_MIN } from '../../../packages/server/src/policy/regions/region-parts.ts'
import type { Random } from '../../e2e/rls/random.ts'
import { between, chance, forkedRandom } from '../forked-random.ts'
import { type Incident, randomIncidents } from '../incidents.ts'
import { Broken, type Plan, type Simulation, violationIn } from '../simulation.ts'
import { HomeCounts } from './home-counts.ts'
import { type HomeSetup, HomeWorld } from './home-world.ts'

export interface HomePlan extends Plan {
  readonly setup: HomeSetup
  readonly trouble: number
  readonly durationMs: number
}

/** Blocks that are not settled are charged 10 s after they were leased. */
const QUIET_MS = 12_000

/** Demand that begins before the end of a run lasts for this time. */
const DEMAND_MS_MAX = 5_000

const HOUR_MS = 3_600_000

/** Keys of a lost region have another home after a window and this time. */
const MOVED_MS = 12_000

/** Before the end of a window, time for blocks to be leased and used. */
const OPEN_MS = 500

/** A window with weeks before and after the run. */
const YEAR = '365d'

export const homeSimulation = simulationOf('home')
export const escrowSimulation = simulationOf('escrow')

function simulationOf(mode: 'home' | 'escrow'): Simulation<HomePlan> {
  return {
    name: mode,
    plan: (seed) => planOf(seed, mode),
    async run(plan) {
      try {
        await run(plan)
        return undefined
      } catch (error) {
        return violationIn(error)
      }
    },
  }
}

function planOf(seed: number, mode: 'home' | 'escrow'): HomePlan {
  const random = forkedRandom(seed, `${mode} plan`)
  const regions = between(random, 2, 4)
  const trouble = random.below(3)
  const perMs = random.pick([4_000, 12_000, 30_000])
  const units = random.pick([ESCROW_UNITS_PER_REGION_MIN * regions, 300, 3_000])
  // All within one window, whatever the clocks show: then the limit holds exactly.
  const isOneWindow = chance(random, 0.4)
  const delayMs = random.pick([1, 45, 45, trouble > 0 ? 200 : 100])
  const keys = random.pick([1, 3])
  const setup: HomeSetup = {
    ...{ seed, mode, regions, keys, isOneWindow },
    limit: isOneWindow ? fixedWindow({ limit: units, per: YEAR }) : limitOf(random, units, perMs),
    second: chance(random, 0.2) ? fixedWindow({ limit: units, per: YEAR }) : undefined,
    reserve: random.pick([0, 10, 10, 40]),
    onCutOff: random.pick(['reserve', 'closed']),
    nodes: random.pick([1, 2]),
    link: {
      delayMs,
      jitterMs: random.pick([0, delayMs, 3 * delayMs]),
      loss: trouble === 0 ? 0 : random.pick([0, 0.01, 0.01, 0.2]),
      duplication: 0,
      bytesPerMs: 125,
    },
    deadlineMs: random.pick([250, 250, 1_000]),
    offsetMsMax: random.pick([0, 500, HOUR_MS]),
    drift: random.pick([0, 0.01]),
  }
  const durationMs = random.pick([8_000, 20_000, trouble > 0 ? 80_000 : 20_000])
  const incidents = randomIncidents(random, {
    ...{ regions, keys, durationMs, trouble },
    unitsMax: Math.max(2, units >> between(random, 2, 5)),
    stepMsMax: random.pick([500, HOUR_MS]),
    cutsMs: [300, 5_000, 12_000, 60_000],
  })
  if (chance(random, 0.1)) return edgePlan(random, setup)
  if (mode === 'escrow' && chance(random, 0.02)) return stallPlan(random, setup)
  const isLosing = trouble === 2 && regions > 2 && chance(random, 0.5)
  if (isLosing) incidents.push(forgetting(random, regions, durationMs))
  const text = JSON.stringify(setup)
  return { seed, text, incidents, setup, trouble, durationMs }
}

/** In the first half, so that the keys of the region have another home before the end. */
function forgetting(random: Random, regions: number, durationMs: number): Incident {
  const delaysMs = Array.from({ length: regions }, () => random.pick([0, 50, 2_000]))
  const at = { atMs: random.below(durationMs >> 1), region: random.below(regions) }
  return { ...at, kind: 'forget', delaysMs }
}

/** Answers that are late at the end of a window, with clocks that agree: the limit is exact. */
function edgePlan(random: Random, setup: HomeSetup): HomePlan {
  const perMs = 3_000
  const edge: HomeSetup = {
    ...setup,
    ...{ isOneWindow: false, limit: fixedWindow({ limit: 120, per: `${perMs}ms` }) },
    ...{ keys: 1, reserve: 0, offsetMsMax: 0, drift: 0, deadlineMs: 250 },
    link: { ...setup.link, delayMs: 45, jitterMs: 120, loss: 0 },
  }
  const atMs = perMs - between(random, 100, 400)
  const demand = { kind: 'demand', key: 0, forMs: 2_000 } as const
  // With `escrow`, small requests open blocks before, and large ones are asked for one by one.
  const demands =
    setup.mode === 'escrow'
      ? [
          { atMs: atMs - OPEN_MS, units: 1, everyMs: 20 },
          { atMs, units: 20, everyMs: 25 },
        ]
      : [{ atMs, units: 2, everyMs: 5 }]
  const incidents = Array.from({ length: edge.regions }, (_, region) =>
    demands.map((one) => ({ ...demand, ...one, region })),
  ).flat()
  const { seed } = setup
  return { seed, text: JSON.stringify(edge), incidents, setup: edge, trouble: 1, durationMs: perMs }
}

/**
 * A process stops for longer than the home keeps its blocks, and then continues with a request
 * before anything else, in a window that the other regions use up.
 */
function stallPlan(random: Random, setup: HomeSetup): HomePlan {
  const perMs = 4_000
  const stall: HomeSetup = {
    ...setup,
    ...{ isOneWindow: false, limit: fixedWindow({ limit: 120, per: `${perMs}ms` }) },
    ...{ second: undefined, keys: 1, nodes: 1, reserve: 0, offsetMsMax: 0, drift: 0 },
    link: { ...setup.link, delayMs: 45, jitterMs: 0, loss: 0 },
  }
  const region = random.below(setup.regions)
  const stopMs = between(random, 1_000, 1_500)
  const forMs = 3 * perMs + random.below(1_000)
  const demand = { kind: 'demand', key: 0 } as const
  const incidents: Incident[] = [
    { ...demand, region, atMs: 500, units: 1, everyMs: 20, forMs: 1_000 },
    { kind: 'crash', region, atMs: stopMs, loses: 'nothing', forMs },
    ...Array.from({ length: setup.regions }, (_, other) => {
      const isStopped = other === region
      const atMs = stopMs + forMs - (isStopped ? 0 : 1_000)
      return { ...demand, atMs, region: other, units: 1, everyMs: 5, forMs: 3_000 }
    }),
  ]
  const { seed } = setup
  const durationMs = stopMs + forMs + perMs
  return { seed, text: JSON.stringify(stall), incidents, setup: stall, trouble: 1, durationMs }
}

function limitOf(random: Random, units: number, perMs: number): Limit {
  const options = { limit: units, per: `${perMs}ms` as const }
  return chance(random, 0.5) ? tokenBucket(options) : fixedWindow(options)
}

async function run({ setup, incidents, durationMs, trouble }: HomePlan): Promise<void> {
  const counts = new HomeCounts(setup)
  const world = new HomeWorld(setup, counts)
  counts.watch(world)
  world.play(incidents)
  await world.runUntil(durationMs)
  world.network.healAll()
  await world.runUntil(durationMs + DEMAND_MS_MAX + QUIET_MS)
  checkQuiet(world, counts, trouble)
  await checkServes(world)
}

/** After quiet every request has a decision, and every admitted unit is charged. */
function checkQuiet(world: HomeWorld, counts: HomeCounts, trouble: number): void {
  const { setup, timeline, open } = world
  if (open > 0) throw new Broken(timeline.nowMs, `${open} requests have no decision`)
  if (!setup.isOneWindow || counts.hasLost) return
  // Units of a group that is undone are lost if their block was settled meanwhile.
  const isSure = trouble === 0 && setup.second === undefined && isTimely(setup)
  for (const counter of world.counters()) {
    const used = world.used(counter)
    const admitted = counts.totalOf(counter)
    const isRight = isSure ? used === admitted : used >= admitted
    if (isRight) continue
    throw new Broken(timeline.nowMs, `${counter.key}: ${used} are charged, ${admitted} admitted`)
  }
}

/** True if every answer arrives, and before its deadline. */
function isTimely({ link, deadlineMs }: HomeSetup): boolean {
  return link.loss === 0 && 2 * (link.delayMs + link.jitterMs) < deadlineMs
}

/** A region that is blocked after all windows and incidents is a defect. */
async function checkServes(world: HomeWorld): Promise<void> {
  const { limit, isOneWindow, second } = world.setup
  if (isOneWindow || second !== undefined || !isTimely(world.setup)) return
  const perMs = 'perMs' in limit ? limit.perMs : 30_000
  const present = world.regions.filter(({ downUntilMs }) => downUntilMs < Infinity)
  // A counter from the future, before a clock stepped back, is found by the first request.
  for (const { index } of present) world.ask(index, 0, 1)
  const askMs = world.timeline.nowMs + 2 * perMs + MOVED_MS
  await world.runUntil(askMs)
  const blocked = new Set(present.map(({ index }) => index))
  for (const { index } of present) {
    world.ask(index, 0, 1, (isAllowed) => {
      if (isAllowed) blocked.delete(index)
    })
  }
  await world.runUntil(askMs + 2 * world.setup.deadlineMs)
  const [first] = blocked
  if (first === undefined) return
  throw new Broken(askMs, `r${first} is blocked after the window`)
}
