/**
 * The pipeline: takes charges and other script calls to the server and their replies back. It is
 * the entry of this folder; the store uses no other file of it.
 *
 * A charge waits in the queue (charge-queue.ts, lane.ts), is written into a script call with others
 * (batch.ts), and is sent under a deadline (script-runner.ts, round-trip.ts). On first use, calls
 * wait until the servers have answered probes (readiness.ts).
 */

import type { Limit } from '../../../algorithms/limit.ts'
import type { Decision } from '../../../decision.ts'
import type { CallBounds } from '../../call-bounds.ts'
import type { Callback, Charge, ChargeMode, StoreTimes } from '../../store.ts'
import type { RedisCaller } from '../client.ts'
import type { ScriptCall } from '../scripts/script-arguments.ts'
import type { ServerTime } from '../server-time.ts'

import { ChargeQueue } from './charge-queue.ts'
import { Readiness } from './readiness.ts'
import { RoundTrip } from './round-trip.ts'
import { type RunnerOptions, ScriptRunner } from './script-runner.ts'
import { PlainCharge, type Waiting } from './waiting.ts'

export type Replication = RunnerOptions['replication']

/** What the pipelines of a store share. */
interface Shared {
  readonly caller: RedisCaller
  readonly time: ServerTime
  readonly replication: Replication
  readonly roundTrip: RoundTrip
  readonly readiness: Readiness
  /** True if the first call waits for the servers to answer probes. */
  readonly probes: boolean
}

export type PipelineOptions = Pick<Shared, 'caller' | 'time' | 'replication' | 'probes'> & {
  readonly prefix: string
  readonly deadlineMs: number
}

/** Calls without a guard that wait to be sent, 600 bytes each. */
const WAITING_MAX = 50_000

/** Returns a pipeline without bounds on the time that calls wait to be sent. */
export function newPipeline({ prefix, deadlineMs, ...options }: PipelineOptions): Pipeline {
  const roundTrip = new RoundTrip()
  const readiness = new Readiness(options.caller, roundTrip, options.time, prefix)
  return new Pipeline({ ...options, roundTrip, readiness }, deadlineMs, undefined)
}

export class Pipeline {
  readonly #shared: Shared
  readonly #runner: ScriptRunner
  readonly #queue: ChargeQueue
  /** How long calls wait for the first answer; undefined once the servers have answered. */
  #connectMs: number | undefined
  #connecting: Promise<void> | undefined
  readonly #meter: CallBounds['meter']

  constructor(shared: Shared, deadlineMs: number | undefined, bounds: CallBounds | undefined) {
    const { caller, replication, roundTrip, time, probes } = shared
    this.#shared = shared
    this.#meter = bounds?.meter?.queued === undefined ? undefined : bounds.meter
    this.#runner = new ScriptRunner(caller, {
      deadlineMs,
      roundTrip,
      replication,
      meter: bounds?.meter,
    })
    this.#connectMs = probes ? bounds?.connectMs : undefined
    const queue = { queueMs: bounds?.queueMs, queueMax: bounds?.queueMax ?? WAITING_MAX }
    const isShut = this.#connectMs !== undefined
    this.#queue = new ChargeQueue(this.#runner, time, caller, queue, isShut)
  }

  /** A pipeline with bounds and a queue of its own, to the same servers. */
  bounded(bounds: CallBounds): Pipeline {
    return new Pipeline(this.#shared, bounds.deadlineMs, bounds)
  }

  times(): StoreTimes {
    const { roundTrip } = this.#shared
    const { deadlineMs } = this.#runner
    return { roundTripMs: roundTrip.ms, deadlineMs, waiting: this.#queue.waitingCount() }
  }

  ready(timeoutMs: number): Promise<void> {
    return this.#shared.readiness.wait(timeoutMs)
  }

  /** Sends a charge of one counter, all or nothing. */
  send(key: string, limit: Limit, cost: number, done: Callback): void {
    this.#push(new PlainCharge(key, limit, cost, done), key)
  }

  /** Sends a group, whose keys are all in one slot. */
  sendGroup(
    keys: readonly string[],
    group: readonly Charge[],
    mode: ChargeMode,
    { resolve, reject }: Callback<readonly Decision[]>,
  ): void {
    this.#push({ keys, group, mode, resolve, reject }, keys[0] as string)
  }

  /**
   * Runs a script call that is not a charge, without the queue. `isBurst` returns true while the
   * caller has many calls under way.
   */
  async run(
    call: ScriptCall,
    isBurst?: () => boolean,
  ): Promise<{ reply: unknown; isConfirmed: boolean }> {
    if (this.#connectMs !== undefined) await this.#connect(this.#connectMs)
    return new Promise((resolve, reject) => {
      const onReply = (reply: unknown, isConfirmed: boolean) => resolve({ reply, isConfirmed })
      this.#runner.run(call, { onReply, onError: reject }, isBurst)
    })
  }

  #push(waiting: Waiting, key: string): void {
    if (this.#meter !== undefined) this.#meter.queued?.(waiting)
    if (!this.#queue.push(waiting, key)) return
    if (this.#connectMs !== undefined) void this.#connect(this.#connectMs)
  }

  #connect(connectMs: number): Promise<void> {
    this.#connecting ??= this.#open(connectMs)
    return this.#connecting
  }

  /** Opens the queue when the servers have answered once, or were waited for in vain. */
  async #open(connectMs: number): Promise<void> {
    try {
      const { readiness } = this.#shared
      if (!readiness.isSettled) await readiness.firstUse(connectMs)
    } catch (error) {
      this.#queue.rejectAll(error)
    }
    this.#connectMs = undefined
    this.#queue.open()
  }
}
