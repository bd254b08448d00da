/**
 * A script call with the charges that wait for it, and the one of the fast path, which most
 * commands are.
 */

import { type FastPath, fastPathArgs, fastPathOf } from '../scripts/fast-path.ts'
import { type ScriptCall, unconfirmed } from '../scripts/script-arguments.ts'
import type { RedisScript } from '../scripts/scripts.generated.ts'
import type { PlainCharge, Waiting } from './waiting.ts'

/** A script call with the charges that wait for it. */
export interface BatchCall extends ScriptCall {
  readonly waiting: readonly Waiting[]
  /** True if the reply begins with the server's time. */
  readonly hasTime: boolean
  /** Resolves the charges; returns those that need the general script instead. */
  settle(reply: unknown, isConfirmed: boolean): readonly Waiting[]
}

export const NONE_LEFT: readonly Waiting[] = []

/** A call of the fast path, for charges of one limit and cost. */
export class FastCall implements BatchCall {
  readonly script: RedisScript
  readonly keys: string[]
  readonly args: readonly string[]
  readonly waiting: readonly PlainCharge[]
  readonly hasTime: boolean
  readonly #path: FastPath

  constructor(charges: readonly PlainCharge[], keys: string[], timeArg: string) {
    const { limit, cost } = charges[0] as PlainCharge
    const path = fastPathOf(limit)
    this.script = path.script
    this.keys = keys
    this.args = fastPathArgs(path, cost, timeArg)
    this.waiting = charges
    this.hasTime = path.hasTime
    this.#path = path
  }

  settle(reply: unknown, isConfirmed: boolean): readonly Waiting[] {
    const charges = this.waiting
    const { cost } = charges[0] as PlainCharge
    let left: PlainCharge[] | undefined
    for (let at = 0; at < charges.length; at++) {
      const charge = charges[at] as PlainCharge
      const decision = this.#path.decide(reply, at, charges.length, cost)
      if (decision !== undefined) charge.resolve(isConfirmed ? decision : unconfirmed(decision))
      else if (left === undefined) left = [charge]
      else left.push(charge)
    }
    return left ?? NONE_LEFT
  }
}
