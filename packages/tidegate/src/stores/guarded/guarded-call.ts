/** One call under a deadline: exactly one of its outcomes is told, and only once. */

import type { Degraded } from '../../decision.ts'
import type { Deadlines, Timed } from '../deadlines.ts'
import type { MaybePromise, Receiver } from '../store.ts'
import type { Shard } from './shard.ts'

/** What a call is about, and what is decided without its answer. */
export interface CallParts<T> {
  readonly shard: Shard
  readonly startMs: number
  decide(reason: Degraded['reason']): T
  remember?: ((value: T) => void) | undefined
}

export interface CallOwner {
  readonly deadlines: Deadlines
  onValue<T>(call: GuardedCall<T>, value: T): void
  onError<T>(call: GuardedCall<T>, error: unknown): void
  /** Nothing came in time; `isStalled` where this process was too busy to look. */
  onLate<T>(call: GuardedCall<T>, isStalled: boolean): void
}

export class GuardedCall<T> implements Timed, Receiver<T> {
  readonly parts: CallParts<T>
  /** Of the caller. */
  readonly caller: Receiver<T>
  /** Whether it finds out for others if the store is back. */
  readonly isProbe: boolean
  readonly #owner: CallOwner
  #isSettled = false
  dueMs = 0
  before: Timed | undefined
  after: Timed | undefined

  constructor(owner: CallOwner, parts: CallParts<T>, caller: Receiver<T>) {
    this.#owner = owner
    this.parts = parts
    this.caller = caller
    this.isProbe = parts.shard.breaker.state !== 'closed'
    owner.deadlines.add(this, parts.startMs)
  }

  run(call: () => MaybePromise<T>): void {
    try {
      const value = call()
      if (!(value instanceof Promise)) this.resolve(value)
      else {
        value.then(
          (settled) => this.resolve(settled),
          (error: unknown) => this.reject(error),
        )
      }
    } catch (error) {
      this.reject(error)
    }
  }

  resolve(value: T): void {
    if (this.#settle()) this.#owner.onValue(this, value)
  }

  reject(error: unknown): void {
    if (this.#settle()) this.#owner.onError(this, error)
  }

  expire(isStalled: boolean): void {
    this.#isSettled = true
    this.#owner.onLate(this, isStalled)
  }

  #settle(): boolean {
    if (this.#isSettled) return false
    this.#isSettled = true
    this.#owner.deadlines.remove(this)
    return true
  }
}
