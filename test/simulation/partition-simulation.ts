/** The mode `partition` under random incidents, with its invariants. */

import { windowAt } from '../../packages/tidegate/src/algorithms/fixed-window.ts'
import { capacityOf } from '../../packages/tidegate/src/algorithms/limit.ts'
import { fixedWindow, tokenBucket } from '../../packages/tidegate/src/limits/limits.ts'
import { PARTS_MAX, sumOf } from '../../packages/tidegate/src/stores/regions/shares.ts'
import { between, chance, forkedRandom } from './forked-random.ts'
import { type Incident, randomIncidents } from './incidents.ts'
import { type PartitionReferee, type PartitionSetup, PartitionWorld } from './partition-world.ts'
import { Broken, type Plan, type Simulation, violationOf } from './simulation.ts'

export interface PartitionPlan extends Plan {
  readonly setup: PartitionSetup
  readonly durationMs: number
}

export const partitionSimulation: Simulation<PartitionPlan> = {
  name: 'partition',

  plan(seed) {
    const random = forkedRandom(seed, 'plan')
    const regions = between(random, 2, 4)
    const perMs = random.pick([2_000, 6_000])
    const units = random.pick([200, 3_000])
    const trouble = random.below(3)
    const durationMs = 120_000
    const delayMs = random.pick([1, 45, trouble > 0 ? 4_000 : 45])
    const hasEpochs = chance(random, 0.3)
    const bases = equalBases(regions, hasEpochs ? between(random, 1, regions) : regions)
    const options = { limit: units, per: `${perMs}ms` as const }
    const setup: PartitionSetup = {
      seed,
      limit: chance(random, 0.5) ? tokenBucket(options) : fixedWindow(options),
      bases,
      link: {
        delayMs,
        jitterMs: random.pick([0, delayMs]),
        loss: trouble === 0 ? 0 : random.pick([0, 0.05, 0.3]),
        duplication: random.pick([0, 0.1]),
        bytesPerMs: 125,
      },
      offsetMsMax: random.pick([0, 400]),
      drift: random.pick([0, 0.004]),
      ticketMs: 1_000,
      ttlMs: random.pick([12_000, 30_000]),
      smoothMs: 5_000,
    }
    const stepMsMax = random.pick([500, 3_600_000])
    const unitsMax = units >> 2
    const common = { regions, keys: 1, durationMs, unitsMax, trouble, stepMsMax }
    const epochs = hasEpochs ? randomEpochs(seed, regions, durationMs) : []
    const incidents = [...longDemands(seed, common), ...randomIncidents(random, common), ...epochs]
    return { seed, text: JSON.stringify(setup), incidents, setup, durationMs }
  },

  run: (plan) => violationOf(() => run(plan)),
}

function equalBases(regions: number, present: number): number[] {
  return Array.from({ length: regions }, (_, at) =>
    at < present ? Math.floor(PARTS_MAX / present) : 0,
  )
}

/** Demand that is uneven for long, so that shares move. */
function longDemands(seed: number, { regions, durationMs, unitsMax }: LongOptions): Incident[] {
  const random = forkedRandom(seed, 'demands')
  return Array.from({ length: 4 }, () => ({
    kind: 'demand' as const,
    atMs: random.below(durationMs >> 1),
    region: random.below(regions),
    key: 0,
    units: between(random, 1, unitsMax),
    everyMs: 200,
    forMs: between(random, 10_000, 60_000),
  }))
}

interface LongOptions {
  readonly regions: number
  readonly durationMs: number
  readonly unitsMax: number
}

/** Regions are added and removed. */
function randomEpochs(seed: number, regions: number, durationMs: number): Incident[] {
  const random = forkedRandom(seed, 'epochs')
  return Array.from({ length: between(random, 1, 3) }, () => ({
    kind: 'epoch' as const,
    atMs: random.below(durationMs),
    bases: equalBases(regions, between(random, 1, regions)),
  }))
}

function run({ setup, incidents, durationMs }: PartitionPlan): void {
  const counts = new PartitionCounts(setup)
  const world = new PartitionWorld(setup, counts)
  counts.world = world
  world.start(durationMs)
  world.play(incidents)
  world.timeline.runUntil(durationMs)
}

class PartitionCounts implements PartitionReferee {
  world: PartitionWorld | undefined
  readonly #setup: PartitionSetup
  /** The shares that nodes of each region have used: each until its time. */
  readonly #used: { share: number; untilMs: number }[][]
  readonly #cells = new Map<number, number>()
  #level = 0
  #levelMs = 0
  #allowance = 0

  constructor(setup: PartitionSetup) {
    this.#setup = setup
    this.#used = setup.bases.map((share) => [{ share, untilMs: Infinity }])
  }

  /** Shares in use, and those whose units still matter, are at most the whole. */
  changed(region: number): void {
    const { world } = this
    if (world === undefined) return
    const { nowMs } = world.timeline
    const used = this.#used[region] as { share: number; untilMs: number }[]
    const current = Math.max(...(world.regions[region]?.nodes ?? []).map(({ share }) => share))
    const last = used.at(-1)
    if (last?.share !== current) {
      if (last !== undefined) last.untilMs = nowMs + world.lastsMs
      used.push({ share: current, untilMs: Infinity })
    }
    const shares = this.#used.map((ofRegion) =>
      Math.max(...ofRegion.filter(({ untilMs }) => untilMs > nowMs).map(({ share }) => share)),
    )
    const sum = sumOf(shares)
    if (sum > PARTS_MAX) throw new Broken(nowMs, `shares ${shares.join(' + ')} are ${sum}`)
  }

  admitted(region: number, units: number): void {
    const { limit } = this.#setup
    const allowed = capacityOf(limit) + this.#allowance
    const sum =
      limit.algorithm === 'fixedWindow' ? this.#inCell(region, units) : this.#inLevel(units)
    if (sum <= allowed + this.#slack()) return
    throw new Broken(this.#nowMs(), `${sum} units are used, allowed are ${allowed}`)
  }

  /** Clocks of stores have whole milliseconds: a millisecond of the rate for each region. */
  #slack(): number {
    const { limit, bases } = this.#setup
    return 'perMs' in limit ? bases.length * (1 + limit.limit / limit.perMs) : 0
  }

  #inCell(region: number, units: number): number {
    const { limit } = this.#setup
    if (limit.algorithm !== 'fixedWindow') return 0
    const storeMs = this.world?.regions[region]?.clock.at(this.#nowMs()).storeMs ?? 0
    const { startMs } = windowAt(storeMs, limit)
    const sum = (this.#cells.get(startMs) ?? 0) + units
    this.#cells.set(startMs, sum)
    return sum
  }

  /** At most the burst and the rate in every interval. */
  #inLevel(units: number): number {
    const { limit, drift } = this.#setup
    const nowMs = this.#nowMs()
    const perMs = 'perMs' in limit ? limit.perMs : 1
    const rate = (limit.limit / perMs) * (1 + drift)
    this.#level = Math.max(0, this.#level - rate * (nowMs - this.#levelMs)) + units
    this.#levelMs = nowMs
    return this.#level
  }

  /** A lost store has its share once more, and so has a window that is entered twice. */
  lost(region: number): void {
    this.#allowance += this.#mostOf(region)
  }

  stepped(region: number): void {
    this.#allowance += 2 * this.#mostOf(region)
  }

  #mostOf(region: number): number {
    const shares = (this.#used[region] ?? []).map(({ share }) => share)
    return Math.ceil((capacityOf(this.#setup.limit) * Math.max(...shares)) / PARTS_MAX)
  }

  #nowMs(): number {
    return this.world?.timeline.nowMs ?? 0
  }
}
