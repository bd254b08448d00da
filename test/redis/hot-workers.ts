/** The processes of hot-worker.ts, for tests and benchmarks. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { HotPlan, HotResult, HotRound } from './hot-worker.ts'

export interface HotWorkers {
  readonly processes: readonly ChildProcess[]
  /** Runs one round in all processes at the same time; null for a process that was killed. */
  run(round: Partial<HotRound>): Promise<(HotResult | null)[]>
  stop(): Promise<void>
}

const program = join(import.meta.dirname, 'hot-worker.ts')

const roundDefault: HotRound = {
  durationMs: 1_000,
  inFlight: 64,
  keys: 1,
  isZipf: false,
  pauseMs: 0,
  bySecond: false,
  callsMax: -1,
}

export async function startHotWorkers(count: number, plan: HotPlan): Promise<HotWorkers> {
  const start = () => fork(program, [JSON.stringify(plan)], { execArgv: [] })
  const processes = Array.from({ length: count }, start)
  await Promise.all(processes.map(nextMessage))
  return {
    processes,
    async run(round) {
      const living = processes.filter(({ connected }) => connected)
      const results = living.map(nextMessage)
      for (const child of living) child.send({ ...roundDefault, ...round })
      return (await Promise.all(results)) as (HotResult | null)[]
    },
    async stop() {
      const ended = processes.map((child) => isRunning(child) && once(child, 'exit'))
      for (const child of processes) if (child.connected) child.disconnect()
      await Promise.all(ended)
    },
  }
}

/** The sum of the results of several processes. */
export function sumOf(results: readonly (HotResult | null)[]) {
  const sum = (field: 'made' | 'admitted' | 'degraded' | 'failed') =>
    results.reduce((total, result) => total + (result?.[field] ?? 0), 0)
  const p99Ms = Math.max(...results.map((result) => result?.p99Ms ?? 0))
  const counts = { made: sum('made'), admitted: sum('admitted') }
  return { ...counts, degraded: sum('degraded'), failed: sum('failed'), p99Ms }
}

/** The calls that several processes admitted in each second, in order. */
export function admittedBySecond(results: readonly (HotResult | null)[]): number[] {
  const sums = new Map<number, number>()
  for (const result of results) {
    for (const [second, admitted] of Object.entries(result?.seconds ?? {})) {
      sums.set(Number(second), (sums.get(Number(second)) ?? 0) + admitted)
    }
  }
  return [...sums].sort(([one], [other]) => one - other).map(([, admitted]) => admitted)
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null
}

function nextMessage(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve) => {
    const onExit = () => resolve(null)
    child.once('exit', onExit)
    child.once('message', (message) => {
      child.off('exit', onExit)
      resolve(message)
    })
  })
}
