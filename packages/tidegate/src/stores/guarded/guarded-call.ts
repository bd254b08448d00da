/** One call under a deadline: exactly one of its outcomes is told, and only once. */

import type { Deadlines, Timed } from '../deadlines.ts'
import type { MaybePromise } from '../store.ts'

export interface CallOutcome<T> {
  onValue(value: T): void
  onError(error: unknown): void
  /** Nothing came in time; `isStalled` where this process was too busy to look. */
  onLate(isStalled: boolean): void
}

export class GuardedCall<T> implements Timed {
  readonly #deadlines: Deadlines
  readonly #outcome: CallOutcome<T>
  #isSettled = false
  dueMs = 0
  before: Timed | undefined
  after: Timed | undefined

  constructor(deadlines: Deadlines, nowMs: number, outcome: CallOutcome<T>) {
    this.#deadlines = deadlines
    this.#outcome = outcome
    deadlines.add(this, nowMs)
  }

  run(call: () => MaybePromise<T>): void {
    const onError = (error: unknown) => {
      if (this.#settle()) this.#outcome.onError(error)
    }
    try {
      const value = call()
      if (value instanceof Promise) value.then((settled) => this.#onValue(settled), onError)
      else this.#onValue(value)
    } catch (error) {
      onError(error)
    }
  }

  expire(isStalled: boolean): void {
    this.#isSettled = true
    this.#outcome.onLate(isStalled)
  }

  #onValue(value: T): void {
    if (this.#settle()) this.#outcome.onValue(value)
  }

  #settle(): boolean {
    if (this.#isSettled) return false
    this.#isSettled = true
    this.#deadlines.remove(this)
    return true
  }
}
