/**
 * Bounds for a store that has none of its own: every charge and adjustment ends within the
 * deadline, and at most `queueMax` of them are under way. Such a store does not report when it has
 * sent a call, so the deadline runs from the call. A process that was busy when it passed gives the
 * store more time, as deadlines.ts says.
 *
 * Only what a guard calls under a deadline is here; it asks the store itself for everything else.
 */

import type { Limit } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import { TidegateError } from '../../errors.ts'
import { Deadlines, type Timed } from '../deadlines.ts'
import type { Adjustment, CallBounds, Charge, ChargeMode, MaybePromise, Store } from '../store.ts'

/** An answer from a healthy server takes less than a millisecond, and Envoy waits for 20. */
const DEADLINE_MS_DEFAULT = 15

export class TimedStore implements Store {
  readonly isRemote = true
  readonly #store: Store
  readonly #queueMax: number
  readonly #deadlineMs: number
  readonly #deadlines: Deadlines
  #calls = 0

  constructor(store: Store, { queueMax, deadlineMs = DEADLINE_MS_DEFAULT }: CallBounds) {
    this.#store = store
    this.#queueMax = queueMax
    this.#deadlineMs = deadlineMs
    this.#deadlines = new Deadlines(deadlineMs)
  }

  times() {
    return { roundTripMs: undefined, deadlineMs: this.#deadlineMs }
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    return this.#call(() => this.#store.charge(group, mode))
  }

  charger(name: string, limit: Limit): (key: string, cost: number) => MaybePromise<Decision> {
    const charge = this.#store.charger?.(name, limit)
    if (charge !== undefined) return (key, cost) => this.#call(() => charge(key, cost))
    return async (key, cost) => {
      const [decision] = await this.charge([{ name, limit, key, cost }], 'all')
      return decision as Decision
    }
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    return this.#call(() => this.#store.adjust(group))
  }

  reset: Store['reset'] = (group) => this.#store.reset(group)

  close(): MaybePromise<void> {
    return this.#store.close()
  }

  #call<T>(run: () => MaybePromise<T>): MaybePromise<T> {
    if (this.#calls >= this.#queueMax) throw tooMany(this.#queueMax)
    const answer = run()
    if (!(answer instanceof Promise)) return answer
    this.#calls++
    return new Promise<T>((resolve, reject) => {
      const call = new TimedCall(this.#deadlines, this.#deadlineMs, (error) => {
        this.#calls--
        reject(error)
      })
      answer.then(
        (value) => {
          if (!call.settle()) return
          this.#calls--
          resolve(value)
        },
        (error: unknown) => {
          if (!call.settle()) return
          this.#calls--
          reject(error)
        },
      )
    })
  }
}

class TimedCall implements Timed {
  readonly #deadlines: Deadlines
  readonly #deadlineMs: number
  readonly #onLate: (error: TidegateError) => void
  #isSettled = false
  dueMs = 0
  before: Timed | undefined
  after: Timed | undefined

  constructor(deadlines: Deadlines, deadlineMs: number, onLate: (error: TidegateError) => void) {
    this.#deadlines = deadlines
    this.#deadlineMs = deadlineMs
    this.#onLate = onLate
    deadlines.add(this)
  }

  /** False if its time was over. */
  settle(): boolean {
    if (this.#isSettled) return false
    this.#isSettled = true
    this.#deadlines.remove(this)
    return true
  }

  expire(): void {
    this.#isSettled = true
    const message = `the store has not answered within ${this.#deadlineMs} ms`
    this.#onLate(new TidegateError('store-timeout', message))
  }
}

function tooMany(queueMax: number): TidegateError {
  return new TidegateError('overloaded', `the store has ${queueMax} calls under way`)
}
