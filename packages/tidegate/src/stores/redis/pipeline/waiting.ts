/**
 * Charges that wait to be sent, each with the caller that waits for it.
 */

import type { Limit } from '../../../algorithms/limit.ts'
import type { Decision } from '../../../decision.ts'
import type { Callback, Charge, ChargeMode } from '../../store.ts'

/** A charge of one counter, all or nothing, with the caller that waits for it. */
export class PlainCharge implements Callback {
  readonly key: string
  readonly limit: Limit
  readonly cost: number
  /** True if its counter is known to have holds, which the fast path cannot serve. */
  hasHolds = false
  /** The tick of the queue at which it began to wait. */
  tick = 0
  /** Later charges of the same counter, limit and cost that travel with this one. */
  followers: PlainCharge[] | undefined
  readonly #done: Callback

  constructor(key: string, limit: Limit, cost: number, done: Callback) {
    this.key = key
    this.limit = limit
    this.cost = cost
    this.#done = done
  }

  /** When the caller asked for it; undefined if it has not read the clock. */
  get startMs(): number | undefined {
    return this.#done.startMs
  }

  resolve(decision: Decision): void {
    this.#done.resolve(decision)
  }

  reject(error: unknown): void {
    this.#done.reject(error)
  }
}

/** Any group, with the caller that waits for it. */
export interface GroupCharge {
  readonly keys: readonly string[]
  readonly group: readonly Charge[]
  readonly mode: ChargeMode
  /** True if one of its counters is known to have holds, which the fast path cannot serve. */
  hasHolds?: boolean
  /** The tick of the queue at which it began to wait. */
  tick?: number
  /** When the caller asked for it, if it has read the clock. */
  readonly startMs?: number
  readonly resolve: (decisions: readonly Decision[]) => void
  readonly reject: (error: unknown) => void
}

export type Waiting = PlainCharge | GroupCharge

/** The charges of one entry of a queue. */
export function chargesAt(waiting: Waiting): readonly Waiting[] {
  if (isGroup(waiting) || waiting.followers === undefined) return [waiting]
  return [waiting, ...waiting.followers]
}

/** The number of charges of one entry of a queue. */
export function countAt(waiting: Waiting): number {
  return isGroup(waiting) || waiting.followers === undefined ? 1 : 1 + waiting.followers.length
}

export function isGroup(waiting: Waiting): waiting is GroupCharge {
  return !(waiting instanceof PlainCharge)
}

export function keysOf(waiting: Waiting): readonly string[] {
  return isGroup(waiting) ? waiting.keys : [waiting.key]
}
