/**
 * One process of a load: makes checks at a steady rate, whether or not earlier ones were answered,
 * and writes down what becomes of each. It is started by `startLoad`, and ends when nobody is
 * connected to it.
 */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import {
  createLimiter,
  type Decision,
  type LayeredLimitOptions,
  type Limit,
} from '../../packages/tidegate/src/index.ts'
import {
  type RedisStoreOptions,
  redisStore,
} from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Store } from '../../packages/tidegate/src/stores/store.ts'
import {
  type ClientName,
  type ClientOptions,
  connectClient,
  type RedisPlace,
} from './guide-client.ts'
import { LoadRecorder, type LoadRecords, type Outcome } from './load-records.ts'
import { machineNowMs } from './machine-clock.ts'

/** What is checked, and by what; all of it plain data, as it travels to other processes. */
export interface LoadTarget {
  readonly client: ClientName
  readonly clientOptions?: ClientOptions
  readonly redis: RedisPlace
  /** By their names. Several are judged together, each with the same key. */
  readonly limits: Readonly<Record<string, Limit>>
  /** How many keys take turns. */
  readonly keys: number
  readonly limiterOptions?: Omit<
    LayeredLimitOptions<string>,
    'limits' | 'store' | 'clock' | 'observer'
  >
  readonly storeOptions?: Omit<RedisStoreOptions, 'clock'>
}

export interface LoadWorkerPlan extends LoadTarget {
  readonly intervalMs: number
  /** At the end, how long what is still pending has for an answer. */
  readonly settleMs: number
}

export type LoadOrder =
  | { readonly name: 'start'; readonly atMs: number }
  | { readonly name: 'stop' }

export type LoadMessage = 'ready' | { readonly sample: LoadSample } | LoadResult

/** How the process was in the time since the sample before. */
export interface LoadSample {
  /** The sample's own time, on the axis of `machineNowMs`. */
  readonly atMs: number
  readonly rssBytes: number
  readonly heapBytes: number
  /** How late timers of the event loop were at worst; up to 2 ms are usual. */
  readonly loopDelayMs: number
  /** Checks without an answer at the time of the sample. */
  readonly pending: number
  readonly made: number
  readonly allowed: number
  readonly denied: number
  readonly rejected: number
  /** Of those that were allowed or denied. */
  readonly degraded: number
}

export interface LoadResult {
  readonly records: LoadRecords
}

const SAMPLE_INTERVAL_MS = 250

/** How often the event loop is looked at, and how much of what is measured is no delay. */
const LOOP_RESOLUTION_MS = 1

/** A process that was stopped does not make up for all that it missed, which would be a flood. */
const CATCH_UP_MS_MAX = 1000

class LoadWorker {
  readonly #plan: LoadWorkerPlan
  readonly #check: (key: string) => Promise<Decision>
  readonly #recorder = new LoadRecorder()
  readonly #loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })
  #counts = { made: 0, allowed: 0, denied: 0, rejected: 0, degraded: 0 }
  #made = 0
  #pending = 0
  #nextMs = 0
  /** Of the timer of arrivals. The loop's own monitor misses what comes just after its reset. */
  #latenessMs = 0
  #timer: NodeJS.Timeout | undefined

  constructor(plan: LoadWorkerPlan, check: (key: string) => Promise<Decision>) {
    this.#plan = plan
    this.#check = check
  }

  start(atMs: number): void {
    this.#loop.enable()
    this.#nextMs = atMs
    this.#arrive()
    // After the timers that are due at the same time, of which the loop's own is one.
    setInterval(() => setImmediate(() => this.#sample()), SAMPLE_INTERVAL_MS)
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    const endMs = machineNowMs() + this.#plan.settleMs
    while (this.#pending > 0 && machineNowMs() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
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
    const key = this.#made % this.#plan.keys
    this.#made += 1
    this.#pending += 1
    this.#counts.made += 1
    const row = this.#recorder.begin(machineNowMs(), key)
    this.#check(`key-${key}`).then(
      ({ allowed, degraded }) => {
        const note = degraded === null ? '' : `${degraded.reason}/${degraded.mode}`
        this.#settle(row, allowed ? 'allowed' : 'denied', note)
        if (degraded !== null) this.#counts.degraded += 1
      },
      (error) => this.#settle(row, 'rejected', error instanceof Error ? error.message : `${error}`),
    )
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
    tell({ sample: { ...now, ...this.#counts } })
    this.#latenessMs = 0
    this.#loop.reset()
    this.#counts = { made: 0, allowed: 0, denied: 0, rejected: 0, degraded: 0 }
  }
}

const plan: LoadWorkerPlan = JSON.parse(process.argv[2] ?? '')
const { client } = await connectClient(plan.client, plan.redis, plan.clientOptions)
const worker = new LoadWorker(plan, checker(plan, redisStore(client, plan.storeOptions)))

process.on('message', (order: LoadOrder) => {
  if (order.name === 'start') worker.start(order.atMs)
  else void worker.stop()
})
process.once('disconnect', () => process.exit())
tell('ready')

function checker({ limits, limiterOptions }: LoadTarget, store: Store) {
  const [[name, limit] = [], ...others] = Object.entries(limits)
  if (name === undefined || limit === undefined) throw new Error('a load needs a limit')
  if (others.length === 0) {
    const limiter = createLimiter({ ...limiterOptions, name, limit, store })
    return (key: string) => limiter.check(key)
  }
  const limiter = createLimiter({ ...limiterOptions, limits, store })
  const names = Object.keys(limits)
  return (key: string) => limiter.check(Object.fromEntries(names.map((each) => [each, key])))
}

function tell(message: LoadMessage): void {
  process.send?.(message)
}
