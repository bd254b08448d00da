/**
 * Charges on their way to the server. What comes while commands are under way travels together with
 * the next one: one script call judges many. A charge that comes alone is sent at once.
 *
 * On one server there is one lane. On a cluster there is one for each slot in use, because a call
 * can reach one slot only; their commands travel side by side, pipelined by the client.
 */

import { steadyClock } from '../../clock.ts'
import { TidegateError } from '../../errors.ts'
import { type BatchCall, PlainCharge, type Waiting, writeCalls, writeGeneralCall } from './batch.ts'
import { slotOf } from './cluster-slot.ts'
import { LoopLoad } from './loop-load.ts'
import type { ScriptRunner } from './script-runner.ts'
import type { ServerTime } from './server-time.ts'

/**
 * Charges in one command. A script call has a fixed price of some microseconds, which is shared by
 * then; a larger one would only hold up the other clients of the server, for longer than 0.3 ms.
 */
const BATCH_MAX = 128

/**
 * Commands of a lane under way at once. With one, server and process would wait for each other in
 * turn, and waking up costs more than a command; with more than eight, each carries too few charges
 * to share the fixed price.
 */
const IN_FLIGHT_MAX = 8

/** Commands with at least so many charges keep the server busy with half as many under way. */
const LARGE_BATCH = 16
const IN_FLIGHT_LARGE_MAX = 4

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
 * Charges that wait to be sent. Each takes some 300 bytes; a server that is this far behind would
 * need more than a tenth of a second to judge them.
 */
const WAITING_MAX = 50_000

/**
 * Counters with holds beside which the short way is not tried for a while: it would cost a round
 * trip more. Some 100 bytes each.
 */
const BESIDE_HOLDS_MAX = 1_024
const BESIDE_HOLDS_MS = 1_000

/** A calendar that is refused although the clocks agree better than this will be refused again. */
const SKEW_MS_MIN = 3_600_000

interface Lane {
  waiting: Waiting[]
  inFlight: number
  /** How many charges the last command carries. */
  batchSize: number
  isScheduled: boolean
  /** On a cluster, the slot that it leads to. */
  readonly slot: number
}

export class Dispatch {
  readonly #runner: ScriptRunner
  readonly #time: ServerTime
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
  #waitingCount = 0

  constructor(runner: ScriptRunner, time: ServerTime, isCluster: boolean) {
    this.#runner = runner
    this.#time = time
    this.#lanes = isCluster ? new Map() : undefined
  }

  /** `key` is the first of its keys, which all lie in one slot. Throws where too many wait. */
  push(waiting: Waiting, key: string): void {
    if (this.#waitingCount >= WAITING_MAX) throw overloaded()
    this.#waitingCount++
    if (this.#besideHolds.size > 0) this.#recall(waiting, key)
    const lane = this.#laneOf(key)
    lane.waiting.push(waiting)
    if (!lane.isScheduled) {
      if (lane.inFlight < inFlightMax(lane)) this.#schedule(lane)
    } else if (lane.waiting.length >= FULL_PART && lane.inFlight < inFlightMax(lane)) {
      this.#flush(lane, FULL_PART)
    }
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
      const share = Math.min(part, length, BATCH_MAX)
      lane.batchSize = share
      const batch = share === length ? lane.waiting : lane.waiting.splice(0, share)
      if (batch === lane.waiting) lane.waiting = []
      this.#waitingCount -= share
      this.#send(lane, batch)
    }
    if (lane.inFlight === 0) this.#lanes?.delete(lane.slot)
    else if (lane.waiting.length > 0 && lane.inFlight < inFlightMax(lane)) this.#hold(lane)
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
    this.#runner.run(call, {
      onReply: (reply, isConfirmed) => {
        if (call.tellsTime) this.#time.learn(reply)
        const left = call.settle(reply, isConfirmed)
        if (left.length === 0) this.#done(lane)
        else this.#runLeft(lane, left)
      },
      onError: (error) => {
        const serverMs = timeOfRefusal(error)
        if (serverMs === undefined || Math.abs(serverMs - this.#time.now()) < SKEW_MS_MIN) {
          for (const one of call.waiting) one.reject(error)
          this.#done(lane)
          return
        }
        // Refused before it wrote anything, because this process's clock is days off. Now it knows.
        this.#time.set(serverMs)
        this.#runGeneral(lane, call.waiting)
      },
    })
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

  #done(lane: Lane): void {
    lane.inFlight--
    if (lane.isScheduled) return
    if (lane.waiting.length > 0) this.#schedule(lane)
    else if (lane.inFlight === 0) this.#lanes?.delete(lane.slot)
  }
}

/** One command is always under way while somebody waits. */
function maySend(lane: Lane, waitingMin: number): boolean {
  if (lane.inFlight === 0) return lane.waiting.length > 0
  return lane.waiting.length >= waitingMin && lane.inFlight < inFlightMax(lane)
}

function inFlightMax({ batchSize }: Lane): number {
  return batchSize >= LARGE_BATCH ? IN_FLIGHT_LARGE_MAX : IN_FLIGHT_MAX
}

function newLane(slot: number): Lane {
  return { waiting: [], inFlight: 0, batchSize: 0, isScheduled: false, slot }
}

function overloaded(): TidegateError {
  const message = `the Redis store has ${WAITING_MAX} calls waiting; the server is too far behind`
  return new TidegateError('overloaded', message)
}

/** The server's time, where it refused a calendar because none of its windows holds it. */
function timeOfRefusal(error: TidegateError): number | undefined {
  const match = /TIDEGATE-WINDOW (\d+)/.exec(error.message)
  return match === null ? undefined : Number(match[1])
}
