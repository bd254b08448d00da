/**
 * Deadlines of one length: what began first is due first, so that a queue and one timer serve any
 * number of calls.
 *
 * When this process itself was busy for longer than the deadline, what it waits for may have come
 * long ago and only not been read. So a deadline that is over is judged after the next look at the
 * sockets, and whoever is told learns that it was a stall of this process.
 */

import { steadyClock } from '../clock.ts'

export interface Timed {
  /** When it is due, in milliseconds of the steady clock. Written here, as are its neighbours. */
  dueMs: number
  before: Timed | undefined
  after: Timed | undefined
  /** Called once, when it is due and was not removed. */
  expire(isStalled: boolean): void
}

/** A timer that is later than this tells of a process that was busy with something else. */
const STALL_MS_MIN = 10

export class Deadlines {
  readonly #lengthMs: number
  #first: Timed | undefined
  #last: Timed | undefined
  #isArmed = false

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  add(timed: Timed, nowMs = steadyClock.now()): void {
    timed.dueMs = nowMs + this.#lengthMs
    timed.before = this.#last
    if (this.#last === undefined) this.#first = timed
    else this.#last.after = timed
    this.#last = timed
    if (!this.#isArmed) this.#arm(this.#lengthMs)
  }

  /** Only for what was added and has not expired. */
  remove(timed: Timed): void {
    const { before, after } = timed
    if (before === undefined) this.#first = after
    else before.after = after
    if (after === undefined) this.#last = before
    else after.before = before
    timed.before = undefined
    timed.after = undefined
  }

  /** The timer runs on while calls come and go, and looks at the first one when it is over. */
  #arm(delayMs: number): void {
    this.#isArmed = true
    steadyClock.schedule(() => {
      const nowMs = steadyClock.now()
      if (this.#first === undefined) this.#isArmed = false
      else if (this.#first.dueMs > nowMs) this.#arm(this.#first.dueMs - nowMs)
      else this.#judge(nowMs - this.#first.dueMs > STALL_MS_MIN)
    }, delayMs)
  }

  /** After the sockets have been read: immediates run behind that, timers before. */
  #judge(isStalled: boolean): void {
    setImmediate(() => {
      const nowMs = steadyClock.now()
      while (this.#first !== undefined && this.#first.dueMs <= nowMs) {
        const due = this.#first
        this.remove(due)
        due.expire(isStalled)
      }
      if (this.#first === undefined) this.#isArmed = false
      else this.#arm(this.#first.dueMs - nowMs)
    })
  }
}
