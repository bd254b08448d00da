/**
 * The queue of calls to the records of idempotency keys. Calls that arrive while commands are under
 * way wait and are sent together: one script call serves many keys, because a command costs client
 * and server more than the work on a record. A single call is sent immediately.
 *
 * On one server there is one lane. On a cluster there is one for each bucket, because a call
 * reaches one slot only. Calls of one lane may overtake each other: every call is checked against
 * its record, so that their order has no meaning.
 *
 * Waiting is bounded in count. A late command is an outage: calls that wait behind it are rejected
 * with it.
 */

import { steadyClock } from '../../clock.ts'
import { TidegateError } from '../../errors.ts'
import { inNextTurn } from '../../runtime.ts'
import { EventLoopLoad } from '../../stores/redis/pipeline/event-loop-load.ts'
import type { Pipeline } from '../../stores/redis/pipeline/pipeline.ts'
import { keyRecordsScript } from '../../stores/redis/scripts/scripts.generated.ts'
import type { ServerTime } from '../../stores/redis/server-time.ts'

export type KeyCallKind = 'claim' | 'complete' | 'renew' | 'release' | 'look' | 'forget'

/** What calls of one kind have in common. A caller has one object for all of them. */
export interface KeyCallShape {
  readonly kind: KeyCallKind
  readonly leaseMs: number
  readonly ttlMs: number
  /** The option of key-records.lua. */
  readonly option: string
}

/** Calls in one command: a larger one would block the other clients of the server for longer. */
const BATCH_MAX = 64

/** Characters of the calls in one command. A larger result travels alone. */
const BATCH_LENGTH_MAX = 64 * 1_024

/**
 * Commands of a lane under way at once. To a distant server there are several, so that a call does
 * not wait for a reply.
 */
const IN_FLIGHT_MAX = 8

/**
 * Calls that a busy process gathers for a command. Each command is a write, a read and the wake-up
 * of two processes, which costs as much as about ten calls.
 */
const BUSY_BATCH_MIN = 24

/** Fewer calls in the last command: the next ones have no others to wait for. */
const GATHERED_MIN = 4

/**
 * The longest time that calls wait for others. A busy process has other work meanwhile, and a
 * request of it takes several times longer.
 */
const HELD_MS_MAX = 2

/** Calls that wait in a process, about 1 KB each without results. */
const WAITING_MAX = 10_000

/** More calls than this at a time are a burst, in which a late answer is not an outage. */
const BURST_CALLS = 16

/** A call to one record. Exactly one of its functions is called, once. */
export interface KeyCall {
  readonly key: string
  readonly shape: KeyCallShape
  readonly text: string
  /** Gets the reply of key-records.lua. */
  onReply(reply: unknown): void
  onError(error: unknown): void
}

interface Lane {
  waiting: KeyCall[]
  inFlight: number
  /** Number of calls of the last command. */
  batchSize: number
  isScheduled: boolean
  isHeld: boolean
}

export class KeyQueue {
  readonly #pipeline: Pipeline
  readonly #time: ServerTime
  readonly #lanes = new Map<string, Lane>()
  readonly #load = new EventLoopLoad()
  #waitingCount = 0
  #sentCount = 0
  readonly #isBurst = () => this.#waitingCount + this.#sentCount > BURST_CALLS

  constructor(pipeline: Pipeline, time: ServerTime) {
    this.#pipeline = pipeline
    this.#time = time
  }

  /** Sends a call. Calls of a lane share a slot. */
  push(lane: string, call: KeyCall): void {
    if (this.#waitingCount < WAITING_MAX) {
      this.#push(this.#laneOf(lane), call)
      return
    }
    const message = `${WAITING_MAX} calls for idempotency keys wait to be sent to Redis already`
    call.onError(new TidegateError('overloaded', message))
  }

  #laneOf(name: string): Lane {
    const known = this.#lanes.get(name)
    if (known !== undefined) return known
    const lane: Lane = { waiting: [], inFlight: 0, batchSize: 0, isScheduled: false, isHeld: false }
    this.#lanes.set(name, lane)
    return lane
  }

  #push(lane: Lane, call: KeyCall): void {
    this.#waitingCount += 1
    lane.waiting.push(call)
    if (lane.inFlight < IN_FLIGHT_MAX) this.#schedule(lane)
  }

  /** Sends the calls of one tick together; a busy process sends after all sockets were read. */
  #schedule(lane: Lane): void {
    if (lane.isScheduled) return
    lane.isScheduled = true
    const flush = () => {
      lane.isScheduled = false
      const gathers = this.#load.isBusy() && (lane.inFlight > 0 || lane.batchSize >= GATHERED_MIN)
      this.#flush(lane, gathers ? BUSY_BATCH_MIN : 1)
    }
    if (lane.inFlight > 0 || this.#load.isBusy()) inNextTurn(flush)
    else queueMicrotask(flush)
  }

  #flush(lane: Lane, batchMin: number): void {
    while (maySend(lane, batchMin)) this.#send(lane, takeFrom(lane))
    if (lane.waiting.length > 0 && lane.inFlight < IN_FLIGHT_MAX) this.#hold(lane)
  }

  #hold(lane: Lane): void {
    if (lane.isHeld) return
    lane.isHeld = true
    steadyClock.schedule(() => {
      lane.isHeld = false
      this.#flush(lane, 1)
    }, HELD_MS_MAX)
  }

  #send(lane: Lane, batch: readonly KeyCall[]): void {
    const { call, order } = writeCall(batch, this.#time.argument())
    lane.inFlight += 1
    lane.batchSize = batch.length
    this.#waitingCount -= batch.length
    this.#sentCount += batch.length
    this.#load.countCommand()
    const end = () => {
      lane.inFlight -= 1
      this.#sentCount -= batch.length
      if (lane.waiting.length > 0) this.#schedule(lane)
    }
    this.#pipeline.run(call, this.#isBurst).then(
      ({ reply, isConfirmed }) => {
        end()
        if (!isConfirmed) rejectAll(order, unconfirmed())
        else for (let at = 0; at < order.length; at++) order[at]?.onReply((reply as unknown[])[at])
      },
      (error) => {
        end()
        rejectAll(order, error)
        if (error instanceof TidegateError && error.code === 'store-timeout') {
          this.#rejectWaiting(lane, error)
        }
      },
    )
  }

  #rejectWaiting(lane: Lane, error: TidegateError): void {
    const waiting = lane.waiting.splice(0)
    this.#waitingCount -= waiting.length
    rejectAll(waiting, error)
  }
}

function maySend({ waiting, inFlight }: Lane, batchMin: number): boolean {
  return waiting.length >= batchMin && inFlight < IN_FLIGHT_MAX
}

function takeFrom(lane: Lane): readonly KeyCall[] {
  let count = 0
  for (let length = 0; count < lane.waiting.length && count < BATCH_MAX; count++) {
    length += lane.waiting[count]?.text.length ?? 0
    if (count > 0 && length > BATCH_LENGTH_MAX) break
  }
  return lane.waiting.splice(0, count)
}

/** The calls of one shape are a run, whose numbers are written once. */
function writeCall(batch: readonly KeyCall[], timeArg: string) {
  const keys: string[] = []
  const args = [timeArg]
  const order: KeyCall[] = []
  for (let at = 0; order.length < batch.length; at++) {
    const { shape } = batch[at] as KeyCall
    if (isWritten(order, shape)) continue
    const { kind, leaseMs, ttlMs, option } = shape
    args.push(kind, '', String(leaseMs), String(ttlMs), option)
    const [countAt, before] = [args.length - 4, order.length]
    for (const one of batch) {
      if (one.shape !== shape) continue
      order.push(one)
      keys.push(one.key)
      args.push(one.text)
    }
    args[countAt] = String(order.length - before)
  }
  return { call: { script: keyRecordsScript, keys, args }, order }
}

/** A batch has few shapes, so that a search is faster than a map. */
function isWritten(order: readonly KeyCall[], shape: KeyCallShape): boolean {
  return order.some((one) => one.shape === shape)
}

function rejectAll(calls: readonly KeyCall[], error: unknown): void {
  for (const call of calls) call.onError(error)
}

function unconfirmed(): TidegateError {
  return new TidegateError('store-failed', 'no replica has confirmed the record of the key')
}
