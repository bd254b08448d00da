/**
 * A steady load on a limiter from separate processes: checks are made on schedule, whether or not
 * earlier ones were answered. Marks divide it into phases, such as before and after a kill, on one
 * time axis of the machine.
 */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type Place, placeOf } from '../servers/place.ts'
import { forkAt, nextMessage } from './fork-at.ts'
import { type LoadReport, loadReport, type Phase, type ProcessLoad } from './load-report.ts'
import type { LoadTarget } from './load-target.ts'
import type { LoadMessage, LoadOrder, LoadSample, LoadWorkerPlan } from './load-worker.ts'
import { machineNowMs } from './machine-clock.ts'
import type { Signalled } from './pause.ts'

export interface LoadPlan extends LoadTarget {
  /** Default: 2. */
  readonly processes?: number
  /** The rate of all processes together. Default: 1000. */
  readonly checksPerSecond?: number
  /** True if no two processes share a key. Default: false. */
  readonly hasOwnKeys?: boolean
  /** At the end, the longest wait for pending checks. Default: 30,000. */
  readonly settleMs?: number
  /** Where the processes run, in turn. Default: here. */
  readonly places?: readonly Place[]
}

export interface Load {
  /** The processes, for example to pause one. */
  readonly processes: readonly Signalled[]
  /** A sample of each process every 250 ms. */
  readonly samples: readonly (readonly LoadSample[])[]
  /** The number of checks in the samples so far. */
  readonly made: number
  /** Begins another phase. */
  mark(name: string): void
  /** Ends the load. Rejects if a process ended before. */
  stop(): Promise<LoadReport>
}

/** The default deadline of the library, unless the plan has another. */
const DEADLINE_MS = 15

/** Only checks that are never answered reach it. */
const SETTLE_MS = 30_000

/** The phase before the first mark. */
const FIRST_PHASE = 'start'

export async function startLoad(plan: LoadPlan): Promise<Load> {
  const { processes = 2, checksPerSecond = 1000, places, settleMs = SETTLE_MS } = plan
  const firstKey = (index: number) => (plan.hasOwnKeys === true ? index * plan.keys : 0)
  const intervalMs = (1000 * processes) / checksPerSecond
  const guard = { deadlineMs: DEADLINE_MS, ...plan.guard }
  const workers = Array.from({ length: processes }, (_, index) =>
    startWorker(placeOf(places, index), {
      ...plan,
      guard,
      firstKey: firstKey(index),
      intervalMs,
      deadlineMs: guard.deadlineMs,
      settleMs,
    }),
  )
  try {
    await Promise.all(workers.map(({ ready }) => ready))
  } catch (error) {
    await Promise.all(workers.map((worker) => worker.end()))
    throw error
  }
  const startedMs = machineNowMs()
  const phases: Phase[] = [{ name: FIRST_PHASE, startedMs }]
  for (const [index, worker] of workers.entries()) {
    worker.order({ name: 'start', atMs: startedMs + (index * intervalMs) / processes })
  }
  return {
    processes: workers,
    samples: workers.map(({ samples }) => samples),
    get made() {
      return workers.flatMap(({ samples }) => samples).reduce((sum, { made }) => sum + made, 0)
    },
    mark: (name) => void phases.push({ name, startedMs: machineNowMs() }),
    async stop() {
      try {
        return loadReport(await Promise.all(workers.map((worker) => worker.finish())), phases)
      } finally {
        await Promise.all(workers.map((worker) => worker.end()))
      }
    },
  }
}

function startWorker(place: Place, plan: LoadWorkerPlan) {
  const child = forkAt(place, join(import.meta.dirname, 'load-worker.ts'), plan)
  const samples: LoadSample[] = []
  const result = new Promise<ProcessLoad>((resolve, reject) => {
    child.on('message', (message: LoadMessage) => {
      if (message === 'ready') return
      if ('sample' in message) samples.push(message.sample)
      else resolve({ records: message.records, samples })
    })
    child.once('exit', (code, signal) => {
      reject(new Error(`a process of the load ended with ${code ?? signal}`))
    })
  })
  // `stop` reports the failure.
  result.catch(() => undefined)
  const order = (message: LoadOrder) => void child.send(message, () => undefined)
  return {
    ready: nextMessage(child),
    samples,
    order,
    get pid() {
      return child.pid ?? 0
    },
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    finish() {
      order({ name: 'stop' })
      return result
    },
    end: () => end(child),
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  if (child.connected) child.disconnect()
  await ended
}
