/**
 * A lane: the charges that wait for one server or slot, in the order in which they came, and how
 * many commands with charges of it are under way.
 */

import { countAt, PlainCharge, SAME_MAX, type Waiting } from './batch.ts'

/**
 * Charges in one command. A script call has a fixed price of some microseconds, which is shared by
 * then; a larger one would only hold up the other clients of the server, for longer than 0.3 ms.
 */
export const BATCH_MAX = 128

/**
 * Commands of a lane under way at once. With one, server and process would wait for each other in
 * turn, and waking up costs more than a command; with more than eight, each carries too few charges
 * to share the fixed price.
 */
const IN_FLIGHT_MAX = 8

/** Commands with at least so many charges keep the server busy with half as many under way. */
const LARGE_BATCH = 16
const IN_FLIGHT_LARGE_MAX = 4

export interface Lane {
  /** In the order in which they came. */
  waiting: Waiting[]
  /**
   * The waiting charge of each counter that later ones join, so that a burst on one counter is one
   * charge. Undefined while few wait.
   */
  byKey: Map<string, PlainCharge> | undefined
  inFlight: number
  /** How many charges the last command carries. */
  batchSize: number
  isScheduled: boolean
  /** On a cluster, the slot that it leads to. */
  readonly slot: number
}

/** Lets a charge travel with one of the same counter, limit and cost, if that waits already. */
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

/** One command is always under way while charges wait. */
export function maySend(lane: Lane, waitingMin: number): boolean {
  if (lane.inFlight === 0) return lane.waiting.length > 0
  return lane.waiting.length >= waitingMin && lane.inFlight < inFlightMax(lane)
}

export function inFlightMax({ batchSize }: Lane): number {
  return batchSize >= LARGE_BATCH ? IN_FLIGHT_LARGE_MAX : IN_FLIGHT_MAX
}

export function newLane(slot: number): Lane {
  const empty = { waiting: [], byKey: undefined, inFlight: 0, batchSize: 0 }
  return { ...empty, isScheduled: false, slot }
}

/** The first charges of a lane, as many as a command should carry. */
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
