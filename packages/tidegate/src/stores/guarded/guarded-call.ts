/** One call to a store that can fail: exactly one of its outcomes is reported, once. */

import type { Degraded } from '../../decision.ts'
import type { MaybePromise, Receiver } from '../store.ts'
import type { Shard } from './shard.ts'

/** The shard of a call, and the decision that is made without its answer. */
export interface CallParts<T> {
  readonly shard: Shard
  readonly startMs: number
  decide(reason: Degraded['reason']): T
  remember?: ((value: T) => void) | undefined
}

export interface CallOwner {
  onValue<T>(call: GuardedCall<T>, value: T): void
  onError<T>(call: GuardedCall<T>, error: unknown): void
}

export class GuardedCall<T> implements Receiver<T> {
  readonly parts: CallParts<T>
  readonly caller: Receiver<T>
  /** True if it finds out for others whether the store is back. */
  readonly isProbe: boolean
  readonly #owner: CallOwner
  #isSettled = false

  constructor(owner: CallOwner, parts: CallParts<T>, caller: Receiver<T>) {
    this.#owner = owner
    this.parts = parts
    this.caller = caller
    this.isProbe = parts.shard.breaker.state !== 'closed'
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
    if (this.#isSettled) return
    this.#isSettled = true
    this.#owner.onValue(this, value)
  }

  reject(error: unknown): void {
    if (this.#isSettled) return
    this.#isSettled = true
    this.#owner.onError(this, error)
  }
}
