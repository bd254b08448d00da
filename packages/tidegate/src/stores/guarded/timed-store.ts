/**
 * Bounds for a store that has none of its own: every charge and adjustment ends within the
 * deadline, and at most `queueMax` of them are under way. Such a store does not report when it has
 * sent a call, so the deadline runs from the call. A process that was busy when it passed gives the
 * store more time, as deadlines.ts explains.
 *
 * It has only the calls that a guard makes under a deadline. The guard calls the store directly for
 * everything else.
 */

import type { Decision } from '../../decision.ts'
import { TidegateError } from '../../errors.ts'
import type { CallBounds } from '../call-bounds.ts'
import { Deadlines, type Timed } from '../deadlines.ts'
import type {
  Adjustment,
  Callback,
  Charge,
  ChargeMode,
  Counter,
  MaybePromise,
  Store,
} from '../store.ts'

/** An answer from a healthy server takes less than a millisecond, and Envoy waits for 20. */
const DEADLINE_MS_DEFAULT = 15

export class TimedStore implements Store {
  readonly isRemote = true
  readonly capabilities
  readonly #store: Store
  readonly #queueMax: number
  readonly #calls: TimedCalls

  constructor(store: Store, { queueMax, deadlineMs = DEADLINE_MS_DEFAULT }: CallBounds) {
    this.capabilities = { times: () => ({ roundTripMs: undefined, deadlineMs }) }
    this.#store = store
    this.#queueMax = queueMax
    this.#calls = { count: 0, deadlineMs, deadlines: new Deadlines(deadlineMs) }
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    return this.#call(() => this.#store.charge(group, mode))
  }

  chargeOne(counter: Counter, cost: number, done: Callback): undefined {
    if (this.#calls.count >= this.#queueMax) throw tooMany(this.#queueMax)
    const call = new TimedCall(this.#calls, done)
    try {
      const decision = this.#store.chargeOne(counter, cost, call)
      if (decision !== undefined) call.resolve(decision)
    } catch (error) {
      call.reject(error)
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
    if (this.#calls.count >= this.#queueMax) throw tooMany(this.#queueMax)
    const answer = run()
    if (!(answer instanceof Promise)) return answer
    return new Promise<T>((resolve, reject) => {
      const call = new TimedCall<T>(this.#calls, { resolve, reject })
      answer.then(call.resolve.bind(call), call.reject.bind(call))
    })
  }
}

/** The calls under way. */
interface TimedCalls {
  count: number
  readonly deadlineMs: number
  readonly deadlines: Deadlines
}

class TimedCall<T> implements Timed, Callback<T> {
  readonly #calls: TimedCalls
  readonly #done: Callback<T>
  #isSettled = false
  dueMs = 0
  before: Timed | undefined
  after: Timed | undefined

  constructor(calls: TimedCalls, done: Callback<T>) {
    this.#calls = calls
    this.#done = done
    calls.count++
    calls.deadlines.add(this)
  }

  resolve(value: T): void {
    if (this.#settle()) this.#done.resolve(value)
  }

  reject(error: unknown): void {
    if (this.#settle()) this.#done.reject(error)
  }

  expire(): void {
    this.#isSettled = true
    this.#calls.count--
    const message = `the store has not answered within ${this.#calls.deadlineMs} ms`
    this.#done.reject(new TidegateError('store-timeout', message))
  }

  /** Returns false after the deadline. */
  #settle(): boolean {
    if (this.#isSettled) return false
    this.#isSettled = true
    this.#calls.count--
    this.#calls.deadlines.remove(this)
    return true
  }
}

function tooMany(queueMax: number): TidegateError {
  return new TidegateError('overloaded', `the store has ${queueMax} calls under way`)
}
