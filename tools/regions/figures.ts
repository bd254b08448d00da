/**
 * The measured tables of docs/decisions/regions.md, from the simulator: the real protocol and the
 * real algorithms in virtual time. `node tools/regions/figures.ts` writes them between the marks of
 * the page; test/simulation/figures.soak.test.ts compares them.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fixedWindow } from '../../packages/tidegate/src/limits/limits.ts'
import { PARTS_MAX, sumOf } from '../../packages/tidegate/src/stores/regions/shares.ts'
import { type PartitionSetup, PartitionWorld } from '../../test/simulation/partition-world.ts'
import {
  keyOf,
  type SharedReferee,
  type SharedSetup,
  SharedWorld,
} from '../../test/simulation/shared-world.ts'
import { bytesPerDecision, type LinkLoad } from './link-bytes.ts'

const REGIONS = 3
const LIMIT = 9_000

const nothing = () => {}
const noReferee: SharedReferee = {
  admitted: nothing,
  lost: nothing,
  stepped: nothing,
  checked: nothing,
}

interface World {
  readonly blind: number
  readonly perMs: number
  /** One way, between two regions. */
  readonly delayMs: number
  readonly exchangeMs: number
  readonly keys?: number
  readonly limit?: number
  readonly seed?: number
}

function worldOf(options: World): SharedWorld {
  const { blind, perMs, delayMs, exchangeMs, keys = 1, limit = LIMIT, seed = 1 } = options
  const setup: SharedSetup = {
    seed,
    limit: fixedWindow({ limit, per: `${perMs}ms` }),
    shares: Array.from({ length: REGIONS }, () => 1),
    blind,
    floor: 0.25,
    keys,
    link: { delayMs, jitterMs: delayMs >> 3, loss: 0, duplication: 0, bytesPerMs: 1_000 },
    offsetMsMax: 0,
    drift: 0,
    exchangeMs,
  }
  return new SharedWorld(setup, noReferee)
}

const STEP_MS = 10

/** Units admitted in one window, with a demand per step in each of the given regions. */
function admittedIn(world: SharedWorld, perMs: number, perStep: (region: number) => number) {
  world.start(perMs)
  let owed = 0
  for (let region = 0; region < REGIONS; region++) {
    world.timeline.every(STEP_MS, 0, perMs, () => {
      // Demands that are not whole are made up for in a later step.
      const wanted = perStep(region) + owed
      owed = wanted - Math.floor(wanted)
      world.demand(region, keyOf(0), Math.floor(wanted))
    })
  }
  world.timeline.runUntil(perMs - 1)
  return world.granted
}

/** From admitted in one region to counted in another, on average, with the rule of thumb. */
const lags = [
  { lagMs: 500, perMs: 60_000, formula: '1 %' },
  { lagMs: 2_000, perMs: 60_000, formula: '3 %' },
  { lagMs: 2_000, perMs: 10_000, formula: '20 %' },
  { lagMs: 10_000, perMs: 60_000, formula: '17 %' },
  { lagMs: 350, perMs: 1_000, formula: 'unacceptable' },
]

function overage({ lagMs, perMs }: { lagMs: number; perMs: number }, blind: number, times: number) {
  // On average, half an exchange is waited for. The rest of the lag is the way.
  const exchangeMs = Math.min(200, lagMs >> 1)
  const world = worldOf({ blind, perMs, delayMs: lagMs - (exchangeMs >> 1), exchangeMs })
  const perStep = (times * LIMIT * STEP_MS) / perMs / REGIONS
  const admitted = admittedIn(world, perMs, () => perStep)
  return percent(admitted / LIMIT - 1)
}

function overageTable(): string[] {
  const demands = [1.1, 2, 10, 1_000_000]
  const cells = lags.map((lag) => [
    `${lag.lagMs / 1_000} s / ${lag.perMs / 1_000} s`,
    lag.formula,
    ...demands.map((times) => overage(lag, REGIONS, times)),
    ...demands.map((times) => overage(lag, 1, times)),
  ])
  return table(
    [
      'lag / window',
      'lag ÷ window',
      ...['1.1 ×', '2 ×', '10 ×', 'burst'].map((text) => `plain, ${text}`),
      ...['1.1 ×', '2 ×', '10 ×', 'burst'].map((text) => `cautious, ${text}`),
    ],
    cells,
  )
}

const MINUTE_MS = 60_000
const usual = { blind: 1, perMs: MINUTE_MS, delayMs: 45, exchangeMs: 200 }

/** How soon a lone region has parts of the limit, in a burst. */
function loneRegion(): string[][] {
  const world = worldOf(usual)
  world.start(MINUTE_MS)
  const reached = new Map<number, number>()
  world.timeline.every(STEP_MS, 0, MINUTE_MS, () => {
    world.demand(0, keyOf(0), LIMIT)
    for (const part of [0.9, 0.99]) {
      if (world.granted >= part * LIMIT && !reached.has(part)) {
        reached.set(part, world.timeline.nowMs)
      }
    }
  })
  world.timeline.runUntil(MINUTE_MS - 1)
  return [
    ['a lone region: 90 % of the limit after', seconds(reached.get(0.9))],
    ['a lone region: 99 % of the limit after', seconds(reached.get(0.99))],
  ]
}

function allHammering(): string[][] {
  const admitted = admittedIn(worldOf(usual), MINUTE_MS, () => LIMIT)
  return [['all regions hammer: part of the limit that is admitted', percent(admitted / LIMIT)]]
}

/** The third region is silent for the whole window. */
function deadRegion(): string[][] {
  const world = worldOf(usual)
  world.start(MINUTE_MS)
  for (const peer of [0, 1]) {
    world.network.cut(2, peer, MINUTE_MS)
    world.network.cut(peer, 2, MINUTE_MS)
  }
  let afterMs: number | undefined
  world.timeline.every(STEP_MS, 0, MINUTE_MS, () => {
    for (const region of [0, 1]) world.demand(region, keyOf(0), region === 0 ? LIMIT : 0)
    if (world.granted >= 0.98 * (2 / 3) * LIMIT) afterMs ??= world.timeline.nowMs
  })
  world.timeline.runUntil(MINUTE_MS - 1)
  return [
    ['a region is silent for 60 s: one other has, at the end', percent(world.granted / LIMIT)],
    ['a region is silent for 60 s: one other has 98 % of that after', seconds(afterMs)],
  ]
}

const CUT_KEYS = 200
const CUT_SEEDS = 8
const CUT_UNITS = LIMIT / 12

/** The longest time of several runs until all regions know all units again. */
function converge(): string[][] {
  const times = Array.from({ length: CUT_SEEDS }, (_, seed) => convergedMs(seed))
  const longest = times.includes(undefined) ? undefined : Math.max(...times.map(Number))
  return [
    ['after a cut of 60 s: all counts of 200 keys are known after, at most', seconds(longest)],
  ]
}

function convergedMs(seed: number): number | undefined {
  const world = worldOf({ ...usual, perMs: 600_000, keys: CUT_KEYS, seed })
  world.start(70_000)
  for (let from = 0; from < REGIONS; from++) {
    for (let to = 0; to < REGIONS; to++) if (from !== to) world.network.cut(from, to, MINUTE_MS)
  }
  for (let key = 0; key < CUT_KEYS; key++) {
    for (let region = 0; region < REGIONS; region++) {
      world.timeline.at(1_000 + key * 250, () => world.demand(region, keyOf(key), CUT_UNITS))
    }
  }
  let doneMs: number | undefined
  world.timeline.every(STEP_MS, MINUTE_MS, 70_000, () => {
    if (doneMs === undefined && isKnownToAll(world)) doneMs = world.timeline.nowMs - MINUTE_MS
  })
  world.timeline.runUntil(70_000)
  return doneMs
}

function isKnownToAll(world: SharedWorld): boolean {
  return world.regions.every(({ shared, clock }) => {
    const times = clock.at(world.timeline.nowMs)
    for (let key = 0; key < CUT_KEYS; key++) {
      if (shared.knownUnits(keyOf(key), times) !== REGIONS * CUT_UNITS) return false
    }
    return true
  })
}

const LOADS: readonly Omit<LinkLoad, 'mode'>[] = [
  { algorithm: 'fixedWindow', limit: 100, perSecond: 3_000 },
  { algorithm: 'fixedWindow', limit: 100, perSecond: 10_000 },
  { algorithm: 'fixedWindow', limit: 1_000, perSecond: 10_000 },
  { algorithm: 'tokenBucket', limit: 100, perSecond: 10_000 },
]

async function bytesTable(): Promise<string[]> {
  const rows: string[][] = []
  for (const load of LOADS) {
    const cells: string[] = []
    for (const mode of ['shared', 'home', 'escrow'] as const) {
      cells.push((await bytesPerDecision({ ...load, mode })).toFixed(1))
    }
    const { algorithm, limit, perSecond } = load
    rows.push([`\`${algorithm}\`, ${limit} in 60 s`, perSecond.toLocaleString('en'), ...cells])
  }
  return table(['limit', 'decisions per second and region', '`shared`', '`home`', '`escrow`'], rows)
}

function sharedTable(): string[] {
  return table(
    ['three regions, 90 ms round trip, exchange every 200 ms, window of 60 s', 'measured'],
    [...loneRegion(), ...allHammering(), ...deadRegion(), ...converge()],
  )
}

const LOAN_MINUTES = [5, 15, 30, 60, 120]
const noLoanReferee = { admitted: nothing, changed: nothing, lost: nothing, stepped: nothing }
const LOAN_PERIODS = ['1m', '10m', '1h'] as const

/** The share of a lone region that borrows from the others, with the times that loans have. */
function loans(): string[][] {
  return LOAN_PERIODS.map((per) => {
    const setup: PartitionSetup = {
      ...{ seed: 1, limit: fixedWindow({ limit: LIMIT, per }), bases: [3_333, 3_333, 3_333] },
      link: { delayMs: 45, jitterMs: 0, loss: 0, duplication: 0, bytesPerMs: 125 },
      ...{ offsetMsMax: 0, drift: 0 },
      ...{ ticketMs: 10_000, ttlMs: 900_000, smoothMs: 600_000 },
    }
    const world = new PartitionWorld(setup, noLoanReferee)
    const endMs = Math.max(...LOAN_MINUTES) * MINUTE_MS
    world.start(endMs)
    world.timeline.every(1_000, 0, endMs, () => world.demand(0, LIMIT / 30))
    let least = PARTS_MAX
    const shares = LOAN_MINUTES.map((minutes) => {
      while (world.timeline.nowMs < minutes * MINUTE_MS) {
        world.timeline.runUntil(world.timeline.nowMs + MINUTE_MS)
        least = Math.min(least, sumOf(world.shares))
      }
      return world.shares[0] ?? 0
    })
    return [per, ...[...shares, least].map((parts) => `${Math.round(parts / 100)} %`)]
  })
}

function loansTable(): string[] {
  const times = LOAN_MINUTES.map((minutes) => `after ${minutes} min`)
  return table(['window', ...times, 'least sum of all shares'], loans())
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)]
}

function percent(part: number): string {
  const text = (part * 100).toFixed(1)
  return `${text.replace(/\.0$/, '').replace(/^-0$/, '0')} %`
}

function seconds(ms: number | undefined): string {
  return ms === undefined ? 'never' : `${(ms / 1_000).toFixed(2)} s`
}

export const PAGE = join(import.meta.dirname, '../../docs/decisions/regions.md')

/** The text of the page with tables of now. */
export async function pageWithFigures(text: string): Promise<string> {
  const shared = within(within(text, 'overage', overageTable()), 'shared', sharedTable())
  return within(within(shared, 'loans', loansTable()), 'bytes', await bytesTable())
}

function within(text: string, name: string, lines: readonly string[]): string {
  const [start, end] = [`<!-- figures: ${name} -->`, `<!-- end of ${name} -->`]
  const from = text.indexOf(start) + start.length
  return `${text.slice(0, from)}\n${lines.join('\n')}\n${text.slice(text.indexOf(end))}`
}

if (process.argv[1] === import.meta.filename) {
  writeFileSync(PAGE, await pageWithFigures(readFileSync(PAGE, 'utf8')))
}
