/**
 * Three regions on this machine, 90 ms apart, each with its own Redis and gateway: a client moves
 * around, then one region is cut off, then it is back. Prints the requests that each mode admitted,
 * and draws them. `--write` puts the drawing into docs/images.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type RegionGateway,
  startBackend,
  startRegionGateway,
} from '../../test/support/regions/region-gateway.ts'
import {
  type RegionName,
  type RegionWorld,
  regionNames,
  startRegionWorld,
} from '../../test/support/regions/region-world.ts'
import { until } from '../../test/support/servers/until.ts'
import { chartSvg } from '../../tools/charts/chart-svg.ts'

const LIMIT = 900
const PER_SECOND = 40
const PHASE_MS = 10_000
const SAMPLE_MS = 500

const quota = { algorithm: 'fixedWindow', limit: LIMIT, per: 'month' }

const limits = [
  { ...quota, name: 'alone' },
  ...['partition', 'shared', 'home', 'escrow'].map((mode) => {
    return { ...quota, name: mode, regions: { mode } }
  }),
]

const labels: Readonly<Record<string, string>> = { alone: 'each region for itself' }

interface Phase {
  readonly text: string
  readonly regions: readonly RegionName[]
  begin?(world: RegionWorld): Promise<void>
}

const phases: readonly Phase[] = [
  { text: 'the client is in eu', regions: ['eu'] },
  { text: 'the client is in us', regions: ['us'] },
  {
    text: 'it is in all regions, and eu is cut off',
    regions: regionNames,
    begin: (world) => world.isolate('eu'),
  },
  { text: 'eu is back', regions: regionNames, begin: (world) => world.heal() },
]

const FIRST_CUT = phases.findIndex(({ begin }) => begin !== undefined)

/** The answers to the requests of one limit. */
class Tally {
  readonly name: string
  readonly tookMs: number[] = []
  readonly byPhase: number[] = phases.map(() => 0)
  readonly points = [{ x: 0, y: 0 }]
  admitted = 0
  /** Decisions without the home of the key before a region is cut off: its answer was late. */
  late = 0

  constructor(name: string) {
    this.name = name
  }

  add(status: number, tookMs: number, phase: number): void {
    this.tookMs.push(tookMs)
    if (status !== 200) return
    this.admitted++
    this.byPhase[phase] = (this.byPhase[phase] ?? 0) + 1
  }

  get label(): string {
    return labels[this.name] ?? this.name
  }
}

const world = await startRegionWorld()
const backend = await startBackend()
const gateways: RegionGateway[] = []
try {
  console.info('Three regions, 90 ms apart, each with its own Redis and gateway.')
  const starting = regionNames.map((name) => startRegionGateway(world, name, backend, limits))
  gateways.push(...(await Promise.all(starting)))
  await until('all regions reach one another', async () => {
    const states = await Promise.all(gateways.map((gateway) => gateway.isConnected()))
    return states.every(Boolean)
  })
  const tallies = limits.map(({ name }) => new Tally(name))
  await play(tallies)
  printTable(tallies)
  draw(tallies)
} finally {
  await Promise.all(gateways.map((gateway) => gateway.stop()))
  backend.stop()
  await world.stop()
}

async function play(tallies: readonly Tally[]): Promise<void> {
  const startMs = performance.now()
  const asked: Promise<void>[] = []
  let sampledMs = 0
  for (const [at, { text, regions, begin }] of phases.entries()) {
    console.info(`${String((at * PHASE_MS) / 1_000).padStart(3)} s  ${text}`)
    if (begin !== undefined && at === FIRST_CUT) await countLate(tallies)
    await begin?.(world)
    const fromMs = performance.now()
    for (let sent = 0; performance.now() - startMs < (at + 1) * PHASE_MS; ) {
      const due = ((performance.now() - fromMs) * PER_SECOND) / 1_000
      for (; sent < due; sent++) asked.push(...askAll(tallies, regions, at))
      const elapsedMs = performance.now() - startMs
      if (elapsedMs - sampledMs >= SAMPLE_MS) {
        sampledMs = elapsedMs
        for (const { points, admitted } of tallies)
          points.push({ x: elapsedMs / 1_000, y: admitted })
      }
      await sleep(5)
    }
  }
  await Promise.all(asked)
  const x = (phases.length * PHASE_MS) / 1_000
  for (const { points, admitted } of tallies) points.push({ x, y: admitted })
}

async function countLate(tallies: readonly Tally[]): Promise<void> {
  for (const page of await Promise.all(gateways.map((gateway) => gateway.metrics()))) {
    for (const tally of tallies) {
      const series = `limit="${tally.name}",mode="${tally.name}",by="cut-off"} `
      const from = page.indexOf(series)
      if (from >= 0) tally.late += Number.parseInt(page.slice(from + series.length), 10)
    }
  }
}

/** One request of each limit in each of the regions. */
function askAll(tallies: readonly Tally[], regions: readonly RegionName[], phase: number) {
  const active = gateways.filter(({ region }) => regions.includes(region))
  return tallies.flatMap((tally) =>
    active.map(async (gateway) => {
      const { status, tookMs } = await gateway.ask(tally.name, 'client')
      tally.add(status, tookMs, phase)
    }),
  )
}

function printTable(tallies: readonly Tally[]): void {
  const places = ['eu', 'us', 'cut off', 'back']
  const heading = ['mode', 'admitted', 'beyond', ...places, 'late', 'p50 ms', 'p99 ms']
  const rows = tallies.map(({ label, admitted, byPhase, late, tookMs }) => {
    const sorted = tookMs.toSorted((one, other) => one - other)
    const at = (part: number) => (sorted[Math.floor(sorted.length * part)] ?? 0).toFixed(1)
    const beyond = Math.max(0, admitted - LIMIT)
    return [label, `${admitted} of ${LIMIT}`, beyond, ...byPhase, late, at(0.5), at(0.99)].map(
      String,
    )
  })
  const all = [heading, ...rows]
  const widths = heading.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)))
  console.info('')
  for (const row of all) {
    console.info(row.map((cell, at) => cell.padStart(widths[at] ?? 0)).join('  '))
  }
}

function draw(tallies: readonly Tally[]): void {
  const end = (phases.length * PHASE_MS) / 1_000
  const limit = { name: 'the limit', isOurs: false }
  const picture = chartSvg({
    name: 'regions',
    title: 'One limit in three regions',
    kind: 'lines',
    xLabel: 'seconds: in eu, in us, in all with eu cut off, eu is back',
    yLabel: 'requests admitted in all regions',
    series: [
      { ...limit, points: [0, end].map((x) => ({ x, y: LIMIT })) },
      ...tallies.map(({ name, label, points }) => ({
        name: label,
        isOurs: name !== 'alone',
        points,
      })),
    ],
  })
  const root = join(import.meta.dirname, '../..')
  const isKept = process.argv.includes('--write')
  const file = join(root, isKept ? 'docs/images/regions.svg' : '.cache/regions.svg')
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, picture)
  console.info(`\nThe drawing is ${file}`)
}
