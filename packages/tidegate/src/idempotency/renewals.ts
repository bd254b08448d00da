/**
 * The renewals of all executions of a process, with one timer. Each is due the same time after it
 * was added, so that the first is always due next. Most executions end before that.
 */

import type { Clock } from '../clock.ts'

export interface Renewable {
  /** When its lease is due; undefined unless it is listed. Written here, as are its neighbours. */
  dueMs: number | undefined
  before: Renewable | undefined
  after: Renewable | undefined
  /** The lease is due. To be renewed again, it must be added again. */
  renew(): void
}

/** A list of linked entries: to add and remove one takes 0.2 µs less than with a `Map`. */
export class Renewals {
  readonly #clock: Clock
  readonly #intervalMs: number
  #first: Renewable | undefined
  #last: Renewable | undefined
  #cancel: (() => void) | undefined

  constructor(clock: Clock, intervalMs: number) {
    this.#clock = clock
    this.#intervalMs = intervalMs
  }

  add(one: Renewable, nowMs: number): void {
    one.dueMs = nowMs + this.#intervalMs
    one.before = this.#last
    if (this.#last === undefined) this.#first = one
    else this.#last.after = one
    this.#last = one
    this.#cancel ??= this.#clock.schedule(this.#onTime, this.#intervalMs)
  }

  /** The timer ends with the last one, so that it does not keep a process alive. */
  remove(one: Renewable): void {
    if (one.dueMs === undefined) return
    this.#unlink(one)
    if (this.#first !== undefined) return
    this.#cancel?.()
    this.#cancel = undefined
  }

  #unlink(one: Renewable): void {
    const { before, after } = one
    if (before === undefined) this.#first = after
    else before.after = after
    if (after === undefined) this.#last = before
    else after.before = before
    one.dueMs = undefined
    one.before = undefined
    one.after = undefined
  }

  readonly #onTime = () => {
    this.#cancel = undefined
    const nowMs = this.#clock.now()
    for (let one = this.#first; one?.dueMs !== undefined; one = this.#first) {
      if (one.dueMs > nowMs) {
        this.#cancel ??= this.#clock.schedule(this.#onTime, one.dueMs - nowMs)
        return
      }
      this.#unlink(one)
      one.renew()
    }
  }
}
