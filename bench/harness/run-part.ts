/**
 * Runs one part and records its report. Everything that the part started is stopped when it ends,
 * when it fails, and when the user interrupts the benchmark.
 */

import type { Chart } from '../../tools/charts/chart.ts'
import { machine } from './machine.ts'
import type { Comparison, Finding, Part, Run, Table } from './part.ts'
import type { Progress } from './progress.ts'

/** Many times the duration of a part: a part that takes longer hangs, and the next one starts. */
const FULL_MS_MAX = 30 * 60_000
const QUICK_MS_MAX = 3 * 60_000

/** The wait for a child that does not stop; then the process ends anyway. */
const STOP_MS_MAX = 10_000

/** More digits are noise, and make the JSON hard to read. */
const DIGITS = 6

const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

/** The choices of the command line. */
export type RunChoices = Pick<Run, 'isQuick' | 'installsPeers'>

export async function runPart(
  part: Part,
  { isQuick, installsPeers }: RunChoices,
  progress: Progress,
): Promise<Finding> {
  const stops = new Stops()
  const records = new Records()
  const startedMs = performance.now()
  const signals = Object.keys(exitCodes) as (keyof typeof exitCodes)[]
  const quit = (signal: keyof typeof exitCodes) => {
    progress.end()
    setTimeout(() => process.exit(exitCodes[signal]), STOP_MS_MAX).unref()
    void stops.all().finally(() => process.exit(exitCodes[signal]))
  }
  for (const signal of signals) process.once(signal, quit)
  try {
    const run = records.run({ isQuick, installsPeers }, progress, stops)
    await inTime(part.run(run), isQuick ? QUICK_MS_MAX : FULL_MS_MAX)
  } finally {
    for (const signal of signals) process.off(signal, quit)
    await stops.all()
  }
  const seconds = Math.round((performance.now() - startedMs) / 1_000)
  return { ...records.finding(part), seconds, isQuick }
}

async function inTime(running: Promise<void>, msMax: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    const error = new Error(`it was not done after ${msMax / 60_000} minutes`)
    timer = setTimeout(() => reject(error), msMax)
  })
  try {
    await Promise.race([running, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Callbacks to stop what a part started, the last first. If one fails, the others still run. */
class Stops {
  readonly #stops: (() => unknown)[] = []
  #isOver = false

  add(stop: () => unknown): void {
    if (this.#isOver) void attempt(stop)
    else this.#stops.push(stop)
  }

  async all(): Promise<void> {
    this.#isOver = true
    for (let stop = this.#stops.pop(); stop !== undefined; stop = this.#stops.pop()) {
      await attempt(stop)
    }
  }
}

async function attempt(stop: () => unknown): Promise<void> {
  try {
    await stop()
  } catch (error) {
    console.error(`bench: something could not be stopped: ${error}`)
  }
}

class Records {
  readonly #comparisons: Comparison[] = []
  readonly #tables: Table[] = []
  readonly #charts: Chart[] = []
  readonly #skipped: string[] = []
  readonly #notes: string[] = []
  readonly #versions: Record<string, string> = {}

  run(choices: RunChoices, progress: Progress, stops: Stops): Run {
    return {
      ...choices,
      progress: (text) => progress.show(text),
      onStop: (stop) => stops.add(stop),
      compared: (comparison) => void this.#comparisons.push(comparison),
      table: (table) => void this.#tables.push(table),
      chart: (chart) => void this.#charts.push(chart),
      uses: (name, version) => {
        this.#versions[name] = version
      },
      skipped: (line) => void this.#skipped.push(line),
      note: (sentence) => void this.#notes.push(sentence),
    }
  }

  finding({ name, title, compares }: Part): Omit<Finding, 'seconds' | 'isQuick'> {
    return rounded({
      part: name,
      title,
      compares,
      at: new Date().toISOString(),
      machine: machine(this.#versions),
      comparisons: this.#comparisons,
      tables: this.#tables,
      charts: this.#charts,
      skipped: this.#skipped,
      notes: this.#notes,
    })
  }
}

/** The values as they will be in JSON, so that screen and page show the same. */
function rounded<T>(value: T): T {
  const short = (_key: string, each: unknown) =>
    typeof each === 'number' ? Number(each.toPrecision(DIGITS)) : each
  return JSON.parse(JSON.stringify(value, short))
}
