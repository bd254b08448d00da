/**
 * The cost of observing: the same program with and without metrics or traces. It is measured by
 * processor time, because other programs on the machine change the throughput far more than a few
 * nanoseconds for each decision. Many short rounds take turns, and each one is compared with the
 * round next to it of the contender that observes nothing. Other programs also add processor time,
 * by emptying the caches, so the table has the quieter rounds as well.
 */

import type { Run, Table } from '../../harness/part.ts'
import { type Contender, median, takeTurns } from '../../harness/rounds.ts'

export interface Cost {
  readonly perSecond: number
  /** Processor time of the process for one decision or request. */
  readonly cpuUs: number
}

export interface Overhead {
  readonly name: string
  readonly title: string
  /** The first one observes nothing. */
  readonly contenders: readonly Contender<Cost>[]
  readonly rounds: number
}

/** A row that is like the first one; its figures are the noise of the measurement. */
export const NOISE = 'the same in other processes: noise'

export async function measureOverhead(run: Run, overhead: Overhead): Promise<void> {
  const { name, title, contenders, rounds } = overhead
  const figures = await takeTurns(run, title, contenders, rounds)
  const [first] = contenders
  const base = figures.get(first?.name ?? '') ?? []
  run.table({
    name,
    title,
    columns: [
      { name: 'per second', digits: 0 },
      { name: 'µs', digits: 2 },
      { name: 'µs, quieter quarter', digits: 2 },
      { name: 'ns added', digits: 0 },
      { name: 'added, %', digits: 1 },
      { name: 'middle half, %' },
      { name: 'quieter quarter, %', digits: 1 },
    ],
    rows: contenders.map((one) => rowOf(one.name, figures.get(one.name) ?? [], base)),
  })
}

/** Takes turns over processes: compiled code and memory differ by chance from one to another. */
export function average(name: string, processes: readonly (() => Promise<Cost>)[]) {
  return {
    name,
    async run(): Promise<Cost> {
      const sum = { perSecond: 0, cpuUs: 0 }
      for (const measure of processes) {
        const { perSecond, cpuUs } = await measure()
        sum.perSecond += perSecond / processes.length
        sum.cpuUs += cpuUs / processes.length
      }
      return sum
    },
  }
}

function rowOf(name: string, own: readonly Cost[], base: readonly Cost[]): Table['rows'][number] {
  const times = own.map(({ cpuUs }) => cpuUs)
  const baseTimes = base.map(({ cpuUs }) => cpuUs)
  const quiet = quantile(times, 0.25)
  const figures = [median(own.map(({ perSecond }) => perSecond)), median(times), quiet]
  if (own === base) return { name, isOurs: true, cells: figures }
  const baseOf = (at: number) => baseTimes[at] ?? Number.NaN
  const addedNs = times.map((time, at) => 1_000 * (time - baseOf(at)))
  const shares = times.map((time, at) => 100 * (time / baseOf(at) - 1))
  const middle = [0.25, 0.75].map((share) => quantile(shares, share).toFixed(1)).join(' to ')
  const quietShare = 100 * (quiet / quantile(baseTimes, 0.25) - 1)
  const added = [median(addedNs), median(shares), middle, quietShare]
  return { name, isOurs: true, cells: [...figures, ...added] }
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN
}
