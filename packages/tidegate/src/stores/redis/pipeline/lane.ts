/**
 * A lane: the charges that wait for one server or slot, in the order of their arrival, and the
 * number of its commands under way.
 *
 * On a cluster, the lanes of one master wait at its gate, and go out together in a wave, which is
 * one write. While waves are under way, charges gather in the lanes, so that each command of the
 * next one has many of them.
 */

import type { RedisCaller } from '../client.ts'
import { SAME_MAX } from './batch.ts'
import type { BatchCall } from './batch-call.ts'
import type { Outcome } from './script-runner.ts'
import { countAt, PlainCharge, type Waiting } from './waiting.ts'

/**
 * Charges in one command. A script call has a fixed cost of a few microseconds, which they share; a
 * larger one would only block the other clients of the server, for longer than 0.3 ms.
 */
export const BATCH_MAX = 128

/**
 * Waiting charges from which later ones search for one to join. The search costs a tenth of a
 * decision. Only a burst has as many, because charges are sent while a command may go out.
 */
export const JOIN_MIN = 64

/**
 * Commands that the charges of one moment are divided into. With fewer, server and process fall
 * asleep while they wait for each other; with more, the process spends its time in writes.
 */
const PARTS = 4

/**
 * Commands of a lane under way at once. To a distant server there are more than that: a charge does
 * not wait for a reply then, but for the end of the turn. With more than eight, each has too few
 * charges.
 */
const IN_FLIGHT_MAX = 8

/** Commands of at least 16 charges keep the server busy with half as many under way. */
const LARGE_BATCH = 16
const IN_FLIGHT_LARGE_MAX = PARTS

/**
 * Waves under way to one master. With one, the master and this process wait for each other; with
 * many, each has few charges. The page docs/decisions/cluster-buckets.md has the measurements.
 */
const WAVES_MAX = 2

export interface Lane {
  /** In the order of their arrival. */
  waiting: Waiting[]
  /**
   * The waiting charge of each counter that later ones join, so that a burst on one counter is one
   * charge. Undefined while few wait.
   */
  byKey: Map<string, PlainCharge> | undefined
  inFlight: number
  /** Number of charges of the last command. */
  batchSize: number
  isScheduled: boolean
  /** The slot, on a cluster. */
  readonly slot: number
  /** The gate of the slot's master, on a cluster. */
  gate: Gate | undefined
  /** True while the lane waits at its gate. */
  isAtGate: boolean
  /** The wave of its commands under way, on a cluster. */
  wave: Wave | undefined
  /** Gets the outcomes of its commands; undefined before the first. */
  outcome: Outcome<BatchCall> | undefined
}

/** Adds a charge to a waiting one of the same counter, limit and cost, if there is one. */
export function hasJoined(lane: Lane, waiting: Waiting): boolean {
  if (lane.byKey === undefined) {
    lane.byKey = new Map()
    for (const one of lane.waiting) if (one instanceof PlainCharge) lane.byKey.set(one.key, one)
  }
  if (!(waiting instanceof PlainCharge)) return false
  const first = lane.byKey.get(waiting.key)
  if (first === undefined || first.limit !== waiting.limit || first.cost !== waiting.cost) {
    lane.byKey.set(waiting.key, waiting)
    return false
  }
  if (first.followers === undefined) first.followers = [waiting]
  else first.followers.push(waiting)
  return true
}

/** True if a command may be sent. While charges wait, at least one command is under way. */
export function maySend(lane: Lane, waitingMin: number): boolean {
  if (lane.inFlight === 0) return lane.waiting.length > 0
  return lane.waiting.length >= waitingMin && lane.inFlight < inFlightMax(lane)
}

/** On a cluster, the waves of the gate keep the master busy. */
export function inFlightMax({ batchSize, gate }: Lane): number {
  if (gate !== undefined) return 1
  return batchSize >= LARGE_BATCH ? IN_FLIGHT_LARGE_MAX : IN_FLIGHT_MAX
}

/**
 * True if a charge waits for the end of the turn. That leaves a single server no less to do. On a
 * cluster, the replies of one moment are many small ones: the charges that follow the first of them
 * would make a wave of their own. `sentCount` is the number of charges under way to all masters.
 */
export function waitsForTurn({ inFlight, gate }: Lane, sentCount: number): boolean {
  return gate === undefined ? inFlight >= PARTS : sentCount > 0
}

/**
 * True if nothing waits or is under way to a single server, and the last charge was alone. With
 * several at a time, the first would travel alone, and the server would wait for the others.
 */
export function isIdle({ waiting, inFlight, isScheduled, batchSize, gate }: Lane): boolean {
  if (inFlight > 0 || isScheduled || gate !== undefined) return false
  return waiting.length === 0 && batchSize <= 1
}

/** Charges of the next command: a share of those that wait. */
export function partOf({ waiting, inFlight }: Lane, partMin: number): number {
  const share = Math.ceil(waiting.length / Math.max(PARTS - inFlight, 1))
  return Math.min(Math.max(share, partMin), BATCH_MAX)
}

export function newLane(slot: number, gate: Gate | undefined): Lane {
  const empty = { waiting: [], byKey: undefined, inFlight: 0, batchSize: 0 }
  const outside = { slot, gate, isAtGate: false, wave: undefined, outcome: undefined }
  return { ...empty, isScheduled: false, ...outside }
}

/** Takes the first charges of a lane, as many as a command should have. */
export function takeFrom(lane: Lane, placesMax: number): readonly Waiting[] {
  const { byKey } = lane
  let places = 0
  // If charges have followers, the server works on up to `SAME_MAX` of each.
  for (let work = 0; places < placesMax && work < BATCH_MAX; places++) {
    const one = lane.waiting[places] as Waiting
    work += Math.min(countAt(one), SAME_MAX)
    if (byKey !== undefined && one instanceof PlainCharge) byKey.delete(one.key)
  }
  lane.batchSize = places
  if (places < lane.waiting.length) return lane.waiting.splice(0, places)
  const all = lane.waiting
  lane.waiting = []
  lane.byKey = undefined
  return all
}

/** The commands that went out together and have no reply yet. */
export interface Wave {
  readonly gate: Gate
  commands: number
}

export class Gate {
  /** The name of the master; undefined if the client does not know it. */
  readonly node: string | undefined
  #lanes: Lane[] = []
  #waves = 0

  constructor(node: string | undefined) {
    this.node = node
  }

  /** Adds a lane with charges to the next wave. */
  add(lane: Lane): void {
    if (lane.isAtGate) return
    lane.isAtGate = true
    this.#lanes.push(lane)
  }

  /** Takes the lanes of the next wave; none if too many waves are under way. */
  open(): readonly Lane[] {
    return this.#waves < WAVES_MAX ? this.takeAll() : []
  }

  /** Removes all lanes. */
  takeAll(): readonly Lane[] {
    const lanes = this.#lanes
    this.#lanes = []
    for (const lane of lanes) lane.isAtGate = false
    return lanes
  }

  /** Starts a wave. It is under way until `leave` was called for each of its commands, and once. */
  start(): Wave {
    this.#waves++
    return { gate: this, commands: 1 }
  }

  leave(wave: Wave): void {
    wave.commands--
    if (wave.commands === 0) this.#waves--
  }
}

/** The gates of all masters. */
export class Gates {
  readonly #nodeOfSlot: RedisCaller['nodeOfSlot']
  readonly #gates = new Map<string, Gate>()

  constructor(nodeOfSlot: RedisCaller['nodeOfSlot']) {
    this.#nodeOfSlot = nodeOfSlot
  }

  /** The gate of a slot's master. If the client does not know the master, a gate of its own. */
  of(slot: number): Gate {
    const node = this.#nodeOfSlot?.(slot)
    if (node === undefined) return new Gate(undefined)
    const known = this.#gates.get(node)
    if (known !== undefined) return known
    const gate = new Gate(node)
    this.#gates.set(node, gate)
    return gate
  }

  /** Slots move between masters, and a lane that is always in use would keep its gate forever. */
  current(lane: Lane, gate: Gate): Gate {
    if (lane.inFlight > 0 || lane.isAtGate) return gate
    const node = this.#nodeOfSlot?.(lane.slot)
    if (node === undefined || node === gate.node) return gate
    lane.gate = this.of(lane.slot)
    return lane.gate
  }
}
