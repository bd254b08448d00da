/**
 * Charges on their way to the server. Charges that come while commands are under way travel with
 * the next one: one script call judges many. A charge that comes alone is sent at once.
 *
 * On one server there is one lane. On a cluster there is one for each slot in use, because a call
 * can reach one slot only; their commands travel side by side, pipelined by the client.
 *
 * Waiting is bounded in count and time; a charge that exceeds either is rejected as overloaded, and
 * was not sent. A command that is late is an outage: the charges that wait behind it in its lane
 * are rejected with it.
 */

import { repeat, steadyClock } from '../../clock.ts'
import { TidegateError } from '../../errors.ts'
import {
  type BatchCall,
  chargesAt,
  countAt,
  PlainCharge,
  SAME_MAX,
  type Waiting,
  writeCalls,
  writeGeneralCall,
} from './batch.ts'
import { slotOf } from './cluster-slot.ts'
import { inTurns } from './in-turns.ts'
import { BATCH_MAX, hasJoined, inFlightMax, type Lane, maySend, newLane, takeFrom } from './lane.ts'
import { LoopLoad } from './loop-load.ts'
import type { Outcome, ScriptRunner } from './script-runner.ts'
import type { ServerTime } from './server-time.ts'

/**
 * Charges of a command of a busy process while another one is under way. Each command is a write, a
 * read, and the waking of two processes, which costs as much as some ten charges. A process that
 * would only wait in the meantime sends each charge at once.
 */
const BUSY_PART_MIN = 24

/** So long at most they wait for others: a reply that does not come must not hold them up. */
const HELD_MS_MAX = 5

/** Charges that are sent at once, because more of them in one command would save nothing. */
const FULL_PART = 64

/** Turns of the event loop that charges of a busy process wait for company, while any comes. */
const BUSY_TURNS_MAX = 4

/**
 * Charges under way from which on commands are given more time: far more than a service has that
 * Redis keeps up with, which at 100,000 per second and 1 ms each are 100.
 */
const BURST_MIN = 200

/**
 * The time that a charge may wait is counted in ticks, not by the clock: after a pause of the whole
 * process one tick has passed, and the charges still have their time.
 */
const QUEUE_TICKS = 8

/**
 * Counters with holds beside which the short way is not tried for a while: it would cost a round
 * trip more. Some 100 bytes each.
 */
const BESIDE_HOLDS_MAX = 1_024
const BESIDE_HOLDS_MS = 1_000

/** A calendar that is refused although the clocks agree better than this will be refused again. */
const SKEW_MS_MIN = 3_600_000

/** Bounds of the waiting; `queueMs` of undefined waits for as long as the commands take. */
export interface QueueBounds {
  readonly queueMax: number
  readonly queueMs: number | undefined
}

export class Dispatch {
  readonly #runner: ScriptRunner
  readonly #time: ServerTime
  readonly #bounds: QueueBounds
  /** None on a single server. */
  readonly #lanes: Map<number, Lane> | undefined
  readonly #onlyLane = newLane(0)
  readonly #load = new LoopLoad()
  /** Lanes that are about to send, all together. */
  #scheduled: Lane[] = []
  /** Lanes in which charges wait although more commands could be under way. */
  readonly #held = new Set<Lane>()
  /** Counters that the short way could not charge, and until when that is believed. */
  readonly #besideHolds = new Map<string, number>()
  /** One for all: in a flood, the stack of each would cost more than a decision. */
  #full: TidegateError | undefined
  #waitingCount = 0
  #sentCount = 0
  /** From when many charges are under way until none is. */
  #isBurst = false
  #tick = 0
  #stopTicks: (() => void) | undefined
  /** While shut, charges wait in their lanes. */
  #isShut: boolean

  constructor(
    runner: ScriptRunner,
    time: ServerTime,
    isCluster: boolean,
    bounds: QueueBounds,
    isShut = false,
  ) {
    this.#runner = runner
    this.#time = time
    this.#bounds = bounds
    this.#lanes = isCluster ? new Map() : undefined
    this.#isShut = isShut
  }

  /** `key` is the first of its keys, which all lie in one slot. Throws if too many wait. */
  push(waiting: Waiting, key: string): void {
    if (this.#waitingCount >= this.#bounds.queueMax) throw this.#tooMany()
    this.#waitingCount++
    if (this.#waitingCount + this.#sentCount >= BURST_MIN) this.#isBurst = true
    waiting.tick = this.#tick
    if (this.#besideHolds.size > 0) this.#recall(waiting, key)
    const lane = this.#laneOf(key)
    if (lane.waiting.length >= SAME_MAX && hasJoined(lane, waiting)) return
    lane.waiting.push(waiting)
    if (this.#isShut) return
    if (!lane.isScheduled) {
      if (lane.inFlight < inFlightMax(lane)) this.#schedule(lane)
    } else if (lane.waiting.length >= FULL_PART && lane.inFlight < inFlightMax(lane)) {
      this.#flush(lane, FULL_PART)
    }
  }

  /** Sends everything that waits. */
  open(): void {
    this.#isShut = false
    for (const lane of this.#allLanes()) {
      if (lane.waiting.length > 0 && !lane.isScheduled) this.#schedule(lane)
    }
  }

  /** Rejects everything that waits. */
  rejectAll(error: unknown): void {
    for (const lane of this.#allLanes()) this.#rejectWaiting(lane, error)
  }

  #allLanes(): Lane[] {
    return this.#lanes === undefined ? [this.#onlyLane] : [...this.#lanes.values()]
  }

  #laneOf(key: string): Lane {
    if (this.#lanes === undefined) return this.#onlyLane
    const slot = slotOf(key)
    const known = this.#lanes.get(slot)
    if (known !== undefined) return known
    const lane = newLane(slot)
    this.#lanes.set(slot, lane)
    return lane
  }

  /**
   * After everything that is ready to run now, so that what comes together travels together. In a
   * busy process, after all that this look at its sockets has brought.
   */
  #schedule(lane: Lane): void {
    lane.isScheduled = true
    this.#scheduled.push(lane)
    if (this.#scheduled.length > 1) return
    if (this.#load.isBusy()) setImmediate(() => this.#gather(BUSY_TURNS_MAX, 0))
    else queueMicrotask(() => this.#flushScheduled(1))
  }

  /** `before` is how many waited a turn ago. */
  #gather(turnsLeft: number, before: number): void {
    const waiting = this.#waitingCount
    const isWorthIt = waiting < BUSY_PART_MIN && waiting > before && turnsLeft > 1
    if (isWorthIt) setImmediate(() => this.#gather(turnsLeft - 1, waiting))
    else this.#flushScheduled(BUSY_PART_MIN)
  }

  #flushScheduled(partMin: number): void {
    const lanes = this.#scheduled
    this.#scheduled = []
    for (const lane of lanes) {
      lane.isScheduled = false
      this.#flush(lane, partMin)
    }
  }

  /** In parts, so that the server works on one while this process reads the reply to another. */
  #flush(lane: Lane, partMin: number, waitingMin = partMin): void {
    while (maySend(lane, waitingMin)) {
      const { length } = lane.waiting
      const part = Math.max(Math.ceil(length / (inFlightMax(lane) - lane.inFlight)), partMin)
      const batch = takeFrom(lane, Math.min(part, length, BATCH_MAX))
      for (const one of batch) this.#waitingCount -= countAt(one)
      this.#send(lane, batch)
    }
    if (lane.inFlight === 0) this.#lanes?.delete(lane.slot)
    else if (lane.waiting.length > 0) {
      this.#startTicks()
      if (lane.inFlight < inFlightMax(lane)) this.#hold(lane)
    }
  }

  #hold(lane: Lane): void {
    if (this.#held.has(lane)) return
    this.#held.add(lane)
    if (this.#held.size > 1) return
    steadyClock.schedule(() => {
      const lanes = [...this.#held]
      this.#held.clear()
      for (const one of lanes) if (one.waiting.length > 0) this.#flush(one, BUSY_PART_MIN, 1)
    }, HELD_MS_MAX)
  }

  #send(lane: Lane, batch: readonly Waiting[]): void {
    try {
      const calls = writeCalls(batch, this.#time)
      lane.inFlight += calls.length
      for (const call of calls) this.#run(lane, call)
    } catch (error) {
      for (const one of batch) one.reject(error)
    }
  }

  #run(lane: Lane, call: BatchCall): void {
    this.#load.hasSent()
    const outcome = this.#outcomeOf(lane, call)
    this.#sentCount += call.waiting.length
    this.#runner.run(call, outcome, this.#isBurst)
  }

  #outcomeOf(lane: Lane, call: BatchCall): Outcome {
    return {
      onReply: (reply, isConfirmed) => {
        this.#arrive(call)
        if (call.tellsTime) this.#time.learn(reply)
        const left = call.settle(reply, isConfirmed)
        if (left.length === 0) this.#done(lane)
        else this.#runLeft(lane, left)
      },
      onError: (error) => {
        this.#arrive(call)
        const serverMs = timeOfRefusal(error)
        if (serverMs === undefined || Math.abs(serverMs - this.#time.now()) < SKEW_MS_MIN) {
          for (const one of call.waiting) one.reject(error)
          if (error.code === 'store-timeout') this.#rejectWaiting(lane, error)
          this.#done(lane)
          return
        }
        // Refused before it wrote anything, because this process's clock is days off. Now it knows.
        this.#time.set(serverMs)
        this.#runGeneral(lane, call.waiting)
      },
    }
  }

  #arrive({ waiting }: BatchCall): void {
    this.#sentCount -= waiting.length
    if (this.#sentCount === 0 && this.#waitingCount === 0) this.#isBurst = false
  }

  /** What the short way has left, and will leave again while the holds are there. */
  #runLeft(lane: Lane, left: readonly Waiting[]): void {
    if (this.#besideHolds.size >= BESIDE_HOLDS_MAX) this.#besideHolds.clear()
    const untilMs = steadyClock.now() + BESIDE_HOLDS_MS
    for (const one of left) {
      if (one instanceof PlainCharge) this.#besideHolds.set(one.key, untilMs)
    }
    this.#runGeneral(lane, left)
  }

  #recall(waiting: Waiting, key: string): void {
    const untilMs = this.#besideHolds.get(key)
    if (untilMs === undefined || !(waiting instanceof PlainCharge)) return
    if (steadyClock.now() < untilMs) waiting.isBesideHolds = true
    else this.#besideHolds.delete(key)
  }

  #runGeneral(lane: Lane, waiting: readonly Waiting[]): void {
    this.#run(lane, writeGeneralCall(waiting, this.#time))
  }

  #rejectWaiting(lane: Lane, error: unknown): void {
    const { waiting } = lane
    lane.waiting = []
    lane.byKey = undefined
    this.#reject(waiting, error)
  }

  #reject(places: readonly Waiting[], error: unknown): void {
    const charges = places.flatMap(chargesAt)
    this.#waitingCount -= charges.length
    inTurns(charges.length, (at) => charges[at]?.reject(error))
  }

  #tooMany(): TidegateError {
    const message = `${this.#bounds.queueMax} calls wait to be sent to Redis already`
    this.#full ??= new TidegateError('overloaded', message)
    return this.#full
  }

  #startTicks(): void {
    const { queueMs } = this.#bounds
    if (queueMs === undefined || this.#stopTicks !== undefined) return
    this.#stopTicks = repeat(() => this.#onTick(), Math.ceil(queueMs / QUEUE_TICKS))
  }

  /** A place in the queue expires with its first charge. */
  #onTick(): void {
    this.#tick++
    const oldest = this.#tick - QUEUE_TICKS
    for (const lane of this.#allLanes()) {
      const { waiting } = lane
      const end = waiting.findIndex(({ tick = 0 }) => tick >= oldest)
      const expired = end === -1 ? waiting.splice(0) : waiting.splice(0, end)
      for (const one of expired) if (one instanceof PlainCharge) lane.byKey?.delete(one.key)
      this.#reject(expired, tooLate(this.#bounds.queueMs ?? 0))
    }
    if (this.#waitingCount > 0) return
    this.#stopTicks?.()
    this.#stopTicks = undefined
  }

  #done(lane: Lane): void {
    lane.inFlight--
    if (lane.isScheduled) return
    if (lane.waiting.length > 0) this.#schedule(lane)
    else if (lane.inFlight === 0) this.#lanes?.delete(lane.slot)
  }
}

function tooLate(queueMs: number): TidegateError {
  return new TidegateError('overloaded', `the call waited for ${queueMs} ms to be sent to Redis`)
}

/** The server's time, where it refused a calendar because none of its windows holds it. */
function timeOfRefusal(error: TidegateError): number | undefined {
  const match = /TIDEGATE-WINDOW (\d+)/.exec(error.message)
  return match === null ? undefined : Number(match[1])
}
