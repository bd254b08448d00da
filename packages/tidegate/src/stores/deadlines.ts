/**
 * Deadlines of about one length: entries are due in the order in which they were added, so that a
 * queue and one timer serve any number of them.
 *
 * A deadline measures how long another process is silent, so the time in which this one was busy
 * does not count: an answer may have arrived and only not been read, or the command was written
 * only at the end of a long turn of the event loop. An entry expires only after the sockets were
 * read once more. If the event loop was busy for most of the time, its entries get a grace as long
 * as that, up to two thirds of a deadline. If the timer was late, the process was stalled, and the
 * machine may be short of processors for the server as well: the grace is as long as the stall, and
 * the deadlines of the next second are longer by that. Each entry gets a grace once, so that a
 * process that is always busy still notices that nothing comes.
 */

import { steadyClock } from '../clock.ts'
import { inNextTurn, loopTimes } from '../runtime.ts'

export interface Timed {
  /** When it is due, in milliseconds of the steady clock. Written here, as are its neighbours. */
  dueMs: number
  before: Timed | undefined
  after: Timed | undefined
  /** Called once, when it is due and was not removed. */
  expire(): void
}

/** A timer that is later than this shows that the process was busy when it was due. */
const BUSY_MS_MIN = 2

/**
 * The shortest grace. Clients that write at the end of an event-loop turn have sent by then, and a
 * healthy server on the same network has answered.
 */
const GRACE_MS_MIN = 5

/** The longest grace, as a share of the deadline: 10 ms of 15. */
const GRACE_SHARE_MAX = 2 / 3

/**
 * The most of a stall that counts. With the shortest deadline it makes 100 ms, the longest deadline
 * that follows a round trip. The calls of a process that stalls for so long wait for longer anyway.
 */
const STALL_MS_MAX = 85

/** A process that is stopped by a CPU quota or by its neighbours is stopped again within that. */
const STALL_MEMORY_MS = 1_000

/** A process whose event loop worked for more than this share of the time was busy. */
const BUSY_SHARE_MIN = 0.5

/** The shortest that a timer can be. */
const DELAY_MS_MIN = 1

/** The longest: a timer delays the exit of a process, also if no entry is left. */
const DELAY_MS_MAX = 1_000

export class Deadlines {
  readonly #length: () => number
  #first: Timed | undefined
  #last: Timed | undefined
  #isArmed = false
  /**
   * How long the event loop had been idle at two moments. The older is at least a deadline ago when
   * the timer is over: over a shorter time, a single turn would look like a busy process.
   */
  #sample = { atMs: Number.NEGATIVE_INFINITY, idleMs: Number.NaN }
  #newerSample = { atMs: Number.NEGATIVE_INFINITY, idleMs: Number.NaN }
  /** The longest recent stall, and its end. */
  #stall = { forMs: 0, endMs: Number.NEGATIVE_INFINITY }
  /** Start of the last grace: entries that were due before it have had theirs. */
  #graceMs = Number.NEGATIVE_INFINITY

  /** The length may change: an entry never becomes due before those that were added earlier. */
  constructor(length: number | (() => number)) {
    this.#length = typeof length === 'number' ? () => length : length
  }

  add(timed: Timed, nowMs = steadyClock.now()): void {
    const isStalling = nowMs - this.#stall.endMs < STALL_MEMORY_MS
    const lengthMs = this.#length() + (isStalling ? this.#stall.forMs : 0)
    timed.dueMs = Math.max(nowMs + lengthMs, this.#last?.dueMs ?? 0)
    timed.before = this.#last
    if (this.#last === undefined) this.#first = timed
    else this.#last.after = timed
    this.#last = timed
    if (!this.#isArmed) this.#arm(lengthMs)
  }

  /** Removes an entry that was added and has not expired. */
  remove(timed: Timed): void {
    const { before, after } = timed
    if (before === undefined) this.#first = after
    else before.after = after
    if (after === undefined) this.#last = before
    else after.before = before
    timed.before = undefined
    timed.after = undefined
  }

  /** Starts the timer, which checks when it is over if the first entry is due. */
  #arm(wantedMs: number): void {
    this.#isArmed = true
    const delayMs = Math.min(wantedMs, DELAY_MS_MAX)
    const armedMs = steadyClock.now()
    this.#takeSample(armedMs)
    const { atMs, idleMs: idleBeforeMs } = this.#sample
    steadyClock.schedule(() => {
      const nowMs = steadyClock.now()
      const lateMs = nowMs - armedMs - delayMs
      this.#notice(lateMs, nowMs)
      this.#check(nowMs, lateMs, busyMs(lateMs, nowMs - atMs, idleMs() - idleBeforeMs))
    }, delayMs)
  }

  #notice(lateMs: number, nowMs: number): void {
    if (lateMs < this.#length()) return
    const forMs = Math.min(lateMs, STALL_MS_MAX)
    const isOver = nowMs - this.#stall.endMs >= STALL_MEMORY_MS
    if (isOver || forMs >= this.#stall.forMs) this.#stall = { forMs, endMs: nowMs }
  }

  /** After a time without entries, the first one is armed for a whole deadline. */
  #takeSample(nowMs: number): void {
    const lengthMs = this.#length()
    const ageMs = nowMs - this.#newerSample.atMs
    if (ageMs < lengthMs) return
    const sample = { atMs: nowMs, idleMs: idleMs() }
    this.#sample = ageMs < 2 * lengthMs ? this.#newerSample : sample
    this.#newerSample = sample
  }

  #check(nowMs: number, lateMs: number, busyForMs: number): void {
    if (this.#first === undefined || this.#first.dueMs > nowMs) {
      this.#goOn(nowMs)
      return
    }
    if (busyForMs === 0) {
      inNextTurn(() => this.#expire(nowMs, true))
      return
    }
    const gracedMs = this.#graceMs
    this.#graceMs = nowMs
    inNextTurn(() => this.#expire(gracedMs, false))
    const stallMs = Math.min(lateMs, STALL_MS_MAX)
    const graceMsMax = Math.max(this.#length() * GRACE_SHARE_MAX, stallMs)
    this.#arm(Math.max(GRACE_MS_MIN, Math.min(busyForMs, graceMsMax)))
  }

  /** Called after the sockets were read: immediates run after that, timers before. */
  #expire(untilMs: number, goesOn: boolean): void {
    try {
      while (this.#first !== undefined && this.#first.dueMs <= untilMs) {
        const due = this.#first
        this.remove(due)
        due.expire()
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

/** How long this process was busy while a timer ran; 0 if it had time to read its sockets. */
function busyMs(lateMs: number, passedMs: number, idleForMs: number): number {
  const workedMs = Number.isNaN(idleForMs) ? 0 : passedMs - idleForMs
  const isBusy = lateMs >= BUSY_MS_MIN || workedMs > passedMs * BUSY_SHARE_MIN
  return isBusy ? Math.max(lateMs, workedMs) : 0
}

/** Time that the event loop has waited for events; NaN if the runtime does not measure it. */
function idleMs(): number {
  return loopTimes()?.idle ?? Number.NaN
}
