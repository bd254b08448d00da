/**
 * Waiting instead of refusing: callers of one key wait in line, first come first served. Only the
 * head of a line charges the store, and sleeps exactly for the retry time of a denial.
 *
 * Each process has its own line. Processes that share a store take turns as the store admits them.
 */

import { type Clock, TIMER_DELAY_MS_MAX } from '../clock.ts'
import type { Decision } from '../decision.ts'
import { TidegateError } from '../errors.ts'
import { checkWhole } from '../options.ts'

export interface WaitOptions {
  /** The longest wait; after it, the decision is a denial. Default: 30 seconds. */
  readonly timeoutMs?: number
  /** The longest line of this key; further callers are denied immediately. Default: 100. */
  readonly queueMax?: number
  /** Ends the wait; the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

interface Calls<D> {
  /** Decides and charges. */
  attempt(): Promise<D>
  /** Charges nothing: for the denial of callers that do not get their turn. */
  peek(): Promise<D>
  /** Gives back units that were granted after the caller had left. */
  undo(): Promise<unknown>
}

interface Waiter<D> {
  readonly calls: Calls<D>
  readonly queueMax: number
  readonly deadlineAt: number
  readonly settle: (outcome: D | Promise<D>) => void
  isSettled: boolean
}

interface Line<D> {
  readonly waiters: Waiter<D>[]
  /** True if the head was denied and sleeps. */
  isWaiting: boolean
  /** Ends the head's sleep before its time. */
  wake: () => void
}

const TIMEOUT_MS_DEFAULT = 30_000
const QUEUE_MAX_DEFAULT = 100

/** Waiters in all lines: each is a promise, a timer and the objects that its caller keeps alive. */
const WAITERS_MAX = 10_000

export class WaitQueue<D extends Decision> {
  readonly #clock: Clock
  readonly #lines = new Map<string, Line<D>>()
  #waiting = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async wait(label: string, calls: Calls<D>, options: WaitOptions): Promise<D> {
    const { timeoutMs = TIMEOUT_MS_DEFAULT, queueMax = QUEUE_MAX_DEFAULT, signal } = options
    checkWhole(timeoutMs, 'wait.timeoutMs', 0, TIMER_DELAY_MS_MAX)
    checkWhole(queueMax, 'wait.queueMax', 0, WAITERS_MAX)
    signal?.throwIfAborted()
    const line = this.#lines.get(label)
    const isFull = line?.isWaiting === true && line.waiters.length >= queueMax
    if (isFull || this.#waiting >= WAITERS_MAX) return denied(calls)
    return this.#stand(label, calls, { timeoutMs, queueMax, signal })
  }

  close(): void {
    for (const line of this.#lines.values()) {
      for (const waiter of line.waiters) waiter.settle(Promise.reject(closed()))
      line.wake()
    }
  }

  #stand(
    label: string,
    calls: Calls<D>,
    options: { timeoutMs: number; queueMax: number; signal: AbortSignal | undefined },
  ): Promise<D> {
    const { timeoutMs, queueMax, signal } = options
    return new Promise<D>((resolve) => {
      const deadlineAt = this.#clock.now() + timeoutMs
      const cancelTimer = this.#clock.schedule(() => giveUp(denied(calls)), timeoutMs)
      const abort = () => giveUp(Promise.reject(signal?.reason))
      signal?.addEventListener('abort', abort, { once: true })
      this.#waiting++
      const settle = (outcome: D | Promise<D>) => {
        if (waiter.isSettled) return
        waiter.isSettled = true
        this.#waiting--
        cancelTimer()
        signal?.removeEventListener('abort', abort)
        resolve(outcome)
      }
      const waiter: Waiter<D> = { calls, queueMax, deadlineAt, settle, isSettled: false }
      const line = this.#join(label, waiter)
      const giveUp = (outcome: Promise<D>) => {
        settle(outcome)
        line.wake()
      }
    })
  }

  #join(label: string, waiter: Waiter<D>): Line<D> {
    const known = this.#lines.get(label)
    const line = known ?? { waiters: [], isWaiting: false, wake: () => {} }
    line.waiters.push(waiter)
    if (known === undefined) {
      this.#lines.set(label, line)
      void this.#serve(label, line)
    }
    return line
  }

  /** Serves the head until it is admitted or leaves, then the next; ends with the line. */
  async #serve(label: string, line: Line<D>): Promise<void> {
    for (let head = line.waiters[0]; head !== undefined; head = line.waiters[0]) {
      if (!head.isSettled) await this.#ask(head, line)
      if (head.isSettled && line.waiters[0] === head) line.waiters.shift()
    }
    this.#lines.delete(label)
  }

  async #ask(head: Waiter<D>, line: Line<D>): Promise<void> {
    try {
      const decision = await head.calls.attempt()
      if (head.isSettled && decision.allowed) await head.calls.undo()
      const isHopeless = this.#clock.now() + decision.retryAfterMs > head.deadlineAt
      if (decision.allowed || isHopeless) head.settle(decision)
      else await this.#waitInLine(line, head, decision.retryAfterMs)
    } catch (error) {
      head.settle(Promise.reject(error))
    }
  }

  /** After a denial: callers too far back are denied, and the head sleeps. */
  async #waitInLine(line: Line<D>, head: Waiter<D>, delayMs: number): Promise<void> {
    const isTooFar = (waiter: Waiter<D>, at: number) => at >= waiter.queueMax
    for (const waiter of line.waiters.filter(isTooFar)) waiter.settle(denied(waiter.calls))
    line.waiters.splice(0, Infinity, ...line.waiters.filter(({ isSettled }) => !isSettled))
    if (head.isSettled) return
    line.isWaiting = true
    await this.#sleep(line, delayMs)
    line.isWaiting = false
  }

  #sleep(line: Line<D>, delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancelTimer = this.#clock.schedule(resolve, delayMs)
      line.wake = () => {
        cancelTimer()
        resolve()
      }
    })
  }
}

async function denied<D extends Decision>(calls: Calls<D>): Promise<D> {
  return { ...(await calls.peek()), allowed: false }
}

function closed(): TidegateError {
  return new TidegateError('closed', 'wait: the limiter was closed')
}
