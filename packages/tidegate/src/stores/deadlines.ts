/**
 * Deadlines of one length: what began first is due first, so that a queue and one timer serve any
 * number of calls.
 *
 * When this process itself was busy while a deadline passed, what it waits for may have come long
 * ago and only not been read, or was never sent. So a deadline that is over is judged after the
 * next look at the sockets; where the process was busy until now, after a second look a moment
 * later. Whoever is told learns where it was a stall of this process.
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

/** A timer that is later than this tells of a process that was busy when it was due. */
const BUSY_MS_MIN = 2

/** And one that is later than this, of a process that was busy for long. */
const STALL_MS_MIN = 10

/**
 * Until the second look. Clients that write at the end of an event-loop turn have sent by then, and
 * a healthy server on the same network has answered.
 */
const SECOND_LOOK_MS = 5

/** The shortest that a timer can be. */
const DELAY_MS_MIN = 1

export class Deadlines {
  readonly #lengthMs: number
  #first: Timed | undefined
  #last: Timed | undefined
  #isArmed = false
  /** The last look that came late. */
  #busy = { lookedMs: -Infinity, isStalled: false }

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
    const atMs = steadyClock.now() + delayMs
    steadyClock.schedule(() => this.#look(steadyClock.now(), atMs), delayMs)
  }

  #look(nowMs: number, atMs: number): void {
    if (this.#first === undefined || this.#first.dueMs > nowMs) {
      this.#goOn(nowMs)
      return
    }
    const lateMs = nowMs - atMs
    const { lookedMs, isStalled } = this.#busy
    // In a process that is always busy, the looks are far enough apart for any answer.
    const stalledMs = isStalled && nowMs - lookedMs < this.#lengthMs ? lookedMs : -Infinity
    if (lateMs < BUSY_MS_MIN) {
      setImmediate(() => this.#expire(nowMs, stalledMs, true))
      return
    }
    this.#busy = { lookedMs: nowMs, isStalled: lateMs > STALL_MS_MIN }
    setImmediate(() => this.#expire(lookedMs, stalledMs, false))
    this.#arm(SECOND_LOOK_MS)
  }

  /** After the sockets have been read: immediates run behind that, timers before. */
  #expire(untilMs: number, stalledMs: number, goesOn: boolean): void {
    try {
      while (this.#first !== undefined && this.#first.dueMs <= untilMs) {
        const due = this.#first
        this.remove(due)
        due.expire(due.dueMs <= stalledMs)
      }
    } finally {
      if (goesOn) this.#goOn(steadyClock.now())
    }
  }

  #goOn(nowMs: number): void {
    if (this.#first === undefined) this.#isArmed = false
    else this.#arm(Math.max(this.#first.dueMs - nowMs, DELAY_MS_MIN))
  }
}
