/**
 * The queue of charges to the server. Charges that arrive while commands are under way wait and are
 * sent together: one script call decides about many. A single charge is sent immediately.
 *
 * On one server there is one lane. On a cluster there is one for each slot in use, because a call
 * reaches one slot only, and a gate for each master, at which lanes wait for their turn.
 *
 * Waiting is bounded in count and time; a charge that exceeds either is rejected as overloaded, and
 * was not sent. A late command is an outage: charges that wait in its lane are rejected with it.
 * The page docs/decisions/charge-queue.md has the measurements of the constants.
 */

import { repeat, steadyClock } from '../../../clock.ts'
import { TidegateError } from '../../../errors.ts'
import { inNextTurn } from '../../../runtime.ts'
import type { RedisCaller } from '../client.ts'
import { slotOf } from '../cluster-slot.ts'
import { timeOfRefusal } from '../redis-error.ts'
import type { ServerTime } from '../server-time.ts'
import { writeCalls, writeGeneralCall, writeLoneCall } from './batch.ts'
import type { BatchCall } from './batch-call.ts'
import { CounterHolds } from './counter-holds.ts'
import { EventLoopLoad } from './event-loop-load.ts'
import { inTurns } from './in-turns.ts'
import {
  BATCH_MAX,
  type Gate,
  Gates,
  hasJoined,
  inFlightMax,
  isIdle,
  JOIN_MIN,
  type Lane,
  maySend,
  newLane,
  partOf,
  takeFrom,
  waitsForTurn,
} from './lane.ts'
import { ReplyTurns } from './reply-turns.ts'
import type { Outcome, ScriptRunner } from './script-runner.ts'
import { chargesAt, countAt, PlainCharge, type Waiting } from './waiting.ts'

/**
 * Charges that a busy process gathers for a command while another one is under way. Each command is
 * a write, a read and the wake-up of two processes, which costs as much as about ten charges. An
 * idle process sends each charge immediately.
 */
const BUSY_PART_MIN = 24

/** The longest time that they wait for others, so that a missing reply does not block them. */
const HELD_MS_MAX = 5

/** Charges that are sent immediately, because more of them in one command would save nothing. */
const FULL_PART = 64

/**
 * Charges under way from which commands get more time. It is more than a service has while Redis
 * keeps up: at 100,000 per second and 1 ms each, 100 are under way.
 */
const BURST_MIN = 200

/**
 * The time that a charge may wait is counted in ticks, not by the clock: after a stall of the whole
 * process only one tick has passed, and the charges still have their time.
 */
const QUEUE_TICKS = 8

/** If the clocks agree better than this, a refused calendar would be refused again. */
const SKEW_MS_MIN = 3_600_000

/** Bounds of the queue; without `queueMs`, charges wait for as long as the commands take. */
export interface QueueBounds {
  readonly queueMax: number
  readonly queueMs: number | undefined
}

export class ChargeQueue {
  readonly #runner: ScriptRunner
  readonly #time: ServerTime
  readonly #bounds: QueueBounds
  /** By slot; none on a single server. */
  readonly #lanes: Map<number, Lane> | undefined
  readonly #gates: Gates
  readonly #onlyLane = newLane(0, undefined)
  readonly #load = new EventLoopLoad()
  readonly #replyTurns = new ReplyTurns()
  /** Lanes that send in the next flush. */
  #scheduled: Lane[] = []
  /** Lanes whose charges wait although more commands could be under way. */
  readonly #held = new Set<Lane>()
  readonly #counterHolds = new CounterHolds()
  /** One error for all: in a flood, the stack of each would cost more than a decision. */
  #full: TidegateError | undefined
  #waitingCount = 0
  #sentCount = 0
  /** True from when many charges are under way until none is. */
  #isBurst = false
  readonly #inBurst = () => this.#isBurst
  #tick = 0
  #stopTicks: (() => void) | undefined
  /** While shut, charges wait in their lanes. */
  #isShut: boolean
  readonly waitingCount = () => this.#waitingCount

  constructor(
    runner: ScriptRunner,
    time: ServerTime,
    caller: Pick<RedisCaller, 'isCluster' | 'nodeOfSlot'>,
    bounds: QueueBounds,
    isShut = false,
  ) {
    this.#runner = runner
    this.#time = time
    this.#bounds = bounds
    this.#gates = new Gates(caller.nodeOfSlot)
    this.#lanes = caller.isCluster ? new Map() : undefined
    this.#isShut = isShut
  }

  /**
   * Adds a charge. `key` is the first of its keys, which are all in one slot. If too many wait, it
   * rejects the charge and returns false.
   */
  push(waiting: Waiting, key: string): boolean {
    if (this.#waitingCount >= this.#bounds.queueMax) {
      waiting.reject(this.#tooMany())
      return false
    }
    this.#counterHolds.mark(waiting)
    const lane = this.#laneOf(key)
    // In a busy process too: a charge that is alone, as the one before it was, gathers no others.
    if (isIdle(lane) && !this.#isShut) {
      this.#sendAlone(lane, waiting)
      return true
    }
    this.#waitingCount++
    if (this.#waitingCount + this.#sentCount >= BURST_MIN) this.#isBurst = true
    waiting.tick = this.#tick
    if (lane.waiting.length >= JOIN_MIN && hasJoined(lane, waiting)) return true
    lane.waiting.push(waiting)
    if (this.#isShut) return true
    if (!lane.isScheduled) {
      if (lane.inFlight < inFlightMax(lane) && !lane.isAtGate) this.#schedule(lane)
    } else if (lane.waiting.length >= FULL_PART && lane.inFlight < inFlightMax(lane)) {
      this.#flush(lane, FULL_PART)
    }
    return true
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
    const lane = newLane(slot, this.#gates.of(slot))
    this.#lanes.set(slot, lane)
    return lane
  }

  /**
   * Sends after all callbacks that are ready now, so that charges of one tick are sent together. A
   * busy process, or one with commands under way, sends after all sockets were read.
   */
  #schedule(lane: Lane): void {
    lane.isScheduled = true
    this.#scheduled.push(lane)
    if (this.#scheduled.length > 1) return
    if (this.#load.isBusy()) inNextTurn(() => this.#flushScheduled(BUSY_PART_MIN))
    else if (waitsForTurn(lane, this.#sentCount)) inNextTurn(() => this.#flushScheduled(1))
    else queueMicrotask(() => this.#flushScheduled(1))
  }

  #flushScheduled(partMin: number): void {
    const lanes = this.#scheduled
    this.#scheduled = []
    for (const lane of lanes) lane.isScheduled = false
    if (this.#lanes !== undefined) this.#passGates(lanes)
    else for (const lane of lanes) this.#flush(lane, partMin)
  }

  /** Sends in parts, so that the server works on one while this process reads another reply. */
  #flush(lane: Lane, partMin: number, waitingMin = partMin): void {
    if (lane.gate !== undefined) {
      this.#passGates([lane])
      return
    }
    while (maySend(lane, waitingMin)) this.#sendPart(lane, partOf(lane, partMin))
    if (lane.waiting.length === 0) return
    this.#startTicks()
    if (lane.inFlight < inFlightMax(lane)) this.#hold(lane)
  }

  /** All lanes wait at their gates before one opens, so that those of a master leave together. */
  #passGates(lanes: readonly Lane[]): void {
    const gates = new Set<Gate>()
    for (const lane of lanes) {
      if (lane.gate === undefined) continue
      // The last command may have left room for other lanes at its gate.
      gates.add(lane.gate)
      const gate = this.#gates.current(lane, lane.gate)
      gates.add(gate)
      if (lane.waiting.length > 0 && lane.inFlight === 0) gate.add(lane)
    }
    for (const gate of gates) this.#sendWave(gate)
    for (const lane of lanes) {
      if (lane.waiting.length > 0) this.#startTicks()
      else this.#forget(lane)
    }
  }

  /** Sends the lanes that wait at a gate in one wave, if it is open. */
  #sendWave(gate: Gate): void {
    const lanes = gate.open()
    if (lanes.length === 0) return
    const wave = gate.start()
    for (const one of lanes) {
      one.wave = wave
      // The charges of a lane may have expired at the gate.
      if (one.waiting.length > 0) this.#sendPart(one, BATCH_MAX)
      else this.#forget(one)
    }
    gate.leave(wave)
  }

  #sendPart(lane: Lane, placesMax: number): void {
    const batch = takeFrom(lane, Math.min(placesMax, lane.waiting.length))
    for (const one of batch) this.#waitingCount -= countAt(one)
    this.#send(lane, batch)
  }

  /** Drops a lane of a cluster that has nothing to do. */
  #forget({ slot, inFlight, isAtGate, isScheduled }: Lane): void {
    if (inFlight === 0 && !isAtGate && !isScheduled) this.#lanes?.delete(slot)
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
      if (lane.wave !== undefined) lane.wave.commands += calls.length
      for (const call of calls) this.#run(lane, call)
    } catch (error) {
      for (const one of batch) one.reject(error)
    }
  }

  #sendAlone(lane: Lane, waiting: Waiting): void {
    lane.batchSize = 1
    try {
      const call = writeLoneCall(waiting, this.#time)
      lane.inFlight++
      this.#run(lane, call, waiting.startMs)
    } catch (error) {
      waiting.reject(error)
    }
  }

  #run(lane: Lane, call: BatchCall, startMs?: number): void {
    this.#load.countCommand()
    lane.outcome ??= this.#outcomeOf(lane)
    this.#sentCount += call.waiting.length
    this.#runner.run(call, lane.outcome, this.#inBurst, startMs)
  }

  /** Made once for a lane, not for each of its commands. */
  #outcomeOf(lane: Lane): Outcome<BatchCall> {
    return {
      onReply: (reply, isConfirmed, call) => {
        const isAlone = lane.inFlight === 1 && !this.#replyTurns.isTaken
        if (isAlone || lane.gate !== undefined) {
          this.#onReply(lane, reply, isConfirmed, call)
          return
        }
        this.#replyTurns.take(() => this.#onReply(lane, reply, isConfirmed, call))
      },
      onError: (error, call) => {
        this.#arrive(call)
        const serverMs = timeOfRefusal(error)
        if (serverMs === undefined || Math.abs(serverMs - this.#time.now()) < SKEW_MS_MIN) {
          for (const one of call.waiting) one.reject(error)
          if (error.code === 'store-timeout') this.#rejectBehind(lane, error)
          this.#done(lane)
          return
        }
        // Refused before any write, because this process's clock is days off. It is corrected now.
        this.#time.set(serverMs)
        this.#run(lane, writeGeneralCall(call.waiting, this.#time))
      },
    }
  }

  #onReply(lane: Lane, reply: unknown, isConfirmed: boolean, call: BatchCall): void {
    this.#arrive(call)
    if (call.hasTime) this.#time.learn(reply)
    const left = call.settle(reply, isConfirmed)
    if (left.length === 0) this.#done(lane)
    else this.#runLeft(lane, left)
  }

  #arrive({ waiting }: BatchCall): void {
    this.#sentCount -= waiting.length
    if (this.#sentCount === 0 && this.#waitingCount === 0) this.#isBurst = false
  }

  /** Runs charges that the fast path has left, and would leave again while there are holds. */
  #runLeft(lane: Lane, left: readonly Waiting[]): void {
    this.#counterHolds.remember(left)
    this.#run(lane, writeGeneralCall(left, this.#time))
  }

  /** Rejects the charges that wait behind a late command, at its gate, too. */
  #rejectBehind(lane: Lane, error: unknown): void {
    this.#rejectWaiting(lane, error)
    for (const other of lane.gate?.takeAll() ?? []) {
      this.#rejectWaiting(other, error)
      this.#forget(other)
    }
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

  /** An entry of the queue expires with its first charge. */
  #onTick(): void {
    this.#tick++
    const oldest = this.#tick - QUEUE_TICKS
    const message = `the call waited for ${this.#bounds.queueMs} ms to be sent to Redis`
    const tooLate = new TidegateError('overloaded', message)
    for (const lane of this.#allLanes()) {
      const { waiting } = lane
      const end = waiting.findIndex(({ tick = 0 }) => tick >= oldest)
      const expired = end === -1 ? waiting.splice(0) : waiting.splice(0, end)
      for (const one of expired) if (one instanceof PlainCharge) lane.byKey?.delete(one.key)
      this.#reject(expired, tooLate)
    }
    if (this.#waitingCount > 0) return
    this.#stopTicks?.()
    this.#stopTicks = undefined
  }

  #done(lane: Lane): void {
    lane.inFlight--
    lane.wave?.gate.leave(lane.wave)
    if (lane.isScheduled) return
    if (lane.waiting.length > 0 || lane.gate !== undefined) this.#schedule(lane)
  }
}
