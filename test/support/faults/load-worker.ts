/**
 * One process of a load: makes checks at a steady rate, whether or not earlier ones were answered,
 * and records the outcome of each. Started by `startLoad`; ends when its parent disconnects.
 */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { LoadRecorder, type LoadRecords, type Outcome } from './load-records.ts'
import { type Checker, type LoadTarget, makeChecker } from './load-target.ts'
import { machineNowMs } from './machine-clock.ts'

export interface LoadWorkerPlan extends LoadTarget {
  /** The number of its first key. */
  readonly firstKey: number
  readonly intervalMs: number
  /** The time after which an answer is late. */
  readonly deadlineMs: number
  /** At the end, the wait for pending checks. */
  readonly settleMs: number
}

export type LoadOrder =
  | { readonly name: 'start'; readonly atMs: number }
  | { readonly name: 'stop' }

export type LoadMessage = 'ready' | { readonly sample: LoadSample } | LoadResult

/** The state of the process since the last sample. */
export interface LoadSample {
  /** The sample's own time, on the axis of `machineNowMs`. */
  readonly atMs: number
  readonly rssBytes: number
  readonly heapBytes: number
  /** The largest delay of timers; up to 2 ms is normal. */
  readonly loopDelayMs: number
  /** Checks without an answer at the time of the sample. */
  readonly pending: number
  readonly made: number
  readonly allowed: number
  readonly denied: number
  readonly rejected: number
  /** Degraded decisions among the allowed and denied ones. */
  readonly degraded: number
  /** The processes that this one knows of, if a limit is enforced by shares. */
  readonly nodes: number
}

export interface LoadResult {
  readonly records: LoadRecords
}

const SAMPLE_INTERVAL_MS = 250

/** The resolution of the monitor; its measurements include this much without any delay. */
const LOOP_RESOLUTION_MS = 1

/**
 * The tolerance beyond the deadline: timers have a resolution of 1 ms, and a busy process checks
 * for the answer again 5 ms later. If it is busy again, the tolerance is added a few more times.
 */
const LOOK_MS = 10
const LOOKS_MAX = 3

/** A timer that is later than this indicates a busy process. */
const BUSY_MS_MIN = 2

/** A stopped process catches up at most this time, to avoid a flood. */
const CATCH_UP_MS_MAX = 1000

class LoadWorker {
  readonly #plan: LoadWorkerPlan
  readonly #check: Checker
  readonly #recorder = new LoadRecorder()
  /** Set by an event of the limiter. */
  nodes = 1
  readonly #loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })
  #counts = { made: 0, allowed: 0, denied: 0, rejected: 0, degraded: 0 }
  #made = 0
  #pending = 0
  #nextMs = 0
  /**
   * The lateness of the arrival timer. The event loop monitor misses delays just after its reset.
   */
  #latenessMs = 0
  #timer: NodeJS.Timeout | undefined
  #samples: NodeJS.Timeout | undefined

  constructor(plan: LoadWorkerPlan, check: Checker) {
    this.#plan = plan
    this.#check = check
  }

  start(atMs: number): void {
    this.#loop.enable()
    this.#nextMs = atMs
    this.#arrive()
    // Runs after the timers that are due at the same time, such as the monitor's.
    const sample = () => setImmediate(() => this.#sample())
    this.#samples = setInterval(sample, SAMPLE_INTERVAL_MS)
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    const endMs = machineNowMs() + this.#plan.settleMs
    while (this.#pending > 0 && machineNowMs() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    clearInterval(this.#samples)
    this.#sample()
    tell({ records: this.#recorder.records() })
  }

  /** Makes the checks that are due. */
  #arrive(): void {
    const nowMs = machineNowMs()
    this.#latenessMs = Math.max(this.#latenessMs, nowMs - this.#nextMs)
    this.#nextMs = Math.max(this.#nextMs, nowMs - CATCH_UP_MS_MAX)
    for (; this.#nextMs <= nowMs; this.#nextMs += this.#plan.intervalMs) this.#make()
    this.#timer = setTimeout(() => this.#arrive(), Math.max(1, this.#nextMs - nowMs))
  }

  #make(): void {
    const turn = this.#made
    const key = this.#plan.firstKey + (turn % this.#plan.keys)
    this.#made += 1
    this.#pending += 1
    this.#counts.made += 1
    const row = this.#recorder.begin(machineNowMs(), key)
    this.#expect(row, this.#plan.deadlineMs, 0)
    this.#check(turn, key).then(
      ({ allowed, degraded }) => {
        const note = degraded === null ? '' : `${degraded.reason}/${degraded.mode}`
        this.#settle(row, allowed ? 'allowed' : 'denied', note)
        if (degraded !== null) this.#counts.degraded += 1
      },
      (error) => this.#settle(row, 'rejected', error instanceof Error ? error.message : `${error}`),
    )
  }

  /**
   * An answer is late if it comes after timers that began at the same time. A stall of this process
   * delays them too, so it does not count against the limiter.
   */
  #expect(row: number, waitMs: number, looks: number): void {
    const dueMs = machineNowMs() + waitMs
    setTimeout(() => {
      const isBusy = machineNowMs() - dueMs > BUSY_MS_MIN
      const looksAgain = looks === 0 || (isBusy && looks < LOOKS_MAX)
      if (looksAgain) this.#expect(row, LOOK_MS, looks + 1)
      else setImmediate(() => this.#recorder.expect(row))
    }, waitMs)
  }

  #settle(row: number, outcome: Exclude<Outcome, 'pending'>, note: string): void {
    this.#recorder.settle(row, machineNowMs(), outcome, note)
    this.#pending -= 1
    this.#counts[outcome] += 1
  }

  #sample(): void {
    const { rss: rssBytes, heapUsed: heapBytes } = process.memoryUsage()
    const loopDelayMs = Math.max(this.#latenessMs, this.#loop.max / 1e6 - LOOP_RESOLUTION_MS)
    const now = { atMs: machineNowMs(), rssBytes, heapBytes, loopDelayMs, pending: this.#pending }
    tell({ sample: { ...now, ...this.#counts, nodes: this.nodes } })
    this.#latenessMs = 0
    this.#loop.reset()
    this.#counts = { made: 0, allowed: 0, denied: 0, rejected: 0, degraded: 0 }
  }
}

const plan: LoadWorkerPlan = JSON.parse(process.argv[2] ?? '')
const check = await makeChecker(plan, (event) => {
  if (event.type === 'nodes') worker.nodes = event.count
})
const worker = new LoadWorker(plan, check)

process.on('message', (order: LoadOrder) => {
  if (order.name === 'start') worker.start(order.atMs)
  else void worker.stop()
})
process.once('disconnect', () => process.exit())
tell('ready')

/** The parent may have ended, and then this process ends too. */
function tell(message: LoadMessage): void {
  process.send?.(message, () => undefined)
}
