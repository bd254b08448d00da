/**
 * The circuit breaker of one shard. While it is closed, calls pass and their outcomes are counted.
 * Too many failures open it, and no call passes for a while. Then one call passes as a probe, whose
 * outcome closes the breaker or opens it for longer.
 *
 * Time is passed in, in milliseconds of any steady clock.
 */

import type { BreakerState } from '../../observer.ts'
import { randomInt } from '../../runtime.ts'

export interface BreakerSettings {
  /** The share of failed calls above which it opens. */
  readonly errorRate: number
  /** Older calls do not count. */
  readonly windowMs: number
  /** With fewer calls in the window, the rate is not significant. */
  readonly callsMin: number
  /** How long it is open at first. Then it is a twentieth of how long the outage has lasted. */
  readonly openFirstMs: number
  /** The longest time that it stays open. */
  readonly openMs: number
}

/** Called at each change; `openMs` is the longest time that it stays open, or 0. */
export type OnBreakerChange = (from: BreakerState, to: BreakerState, openMs: number) => void

/** The window moves in steps of a tenth of it. */
const STEPS = 10

/**
 * The same number of calls as the rate needs, all failed and none succeeded in between, opens it at
 * once: ten good seconds do not make a dead server answer. They must spread over this time, as one
 * lost command takes all calls with it that travelled together.
 */
const FAILURES_SPAN_MS_MIN = 10

/**
 * Calls without an answer open it only after this time, and only if calls that began after the
 * first of them stay without an answer as well: a server on a busy machine may lose its processor
 * for some tens of milliseconds. With a deadline of 15 ms, it opens within 100 ms of an outage. An
 * error is an answer, and needs no such time.
 */
const SILENCE_MS_MIN = 50

/** So the end of an outage is noticed when it has become longer by this share at most. */
const PAUSE_SHARE = 0.05

/** Pauses are shorter by up to this share, so that many processes do not probe at once. */
const JITTER = 0.2

export class Breaker {
  readonly #settings: BreakerSettings
  readonly #onChange: OnBreakerChange
  readonly #random: () => number
  readonly #calls = new Uint32Array(STEPS)
  readonly #failures = new Uint32Array(STEPS)
  #step = 0
  #state: BreakerState = 'closed'
  #failuresInRow = 0
  #firstFailureMs = 0
  /** When the first call of a window stayed without an answer, and the last one so far. */
  #silentSinceMs = Number.NEGATIVE_INFINITY
  #silentMs = Number.NEGATIVE_INFINITY
  #closedMs = Number.NEGATIVE_INFINITY
  #openUntilMs = 0
  #downSinceMs = 0
  #isProbing = false

  constructor(
    settings: BreakerSettings,
    onChange: OnBreakerChange,
    random: () => number = randomShare,
  ) {
    this.#settings = settings
    this.#random = random
    this.#onChange = onChange
  }

  get state(): BreakerState {
    return this.#state
  }

  /** True if a call may pass. A call that passes a half-open breaker is its probe. */
  admits(nowMs: number): boolean {
    if (this.#state === 'closed') return true
    if (this.#isProbing || nowMs < this.#openUntilMs) return false
    this.#isProbing = true
    if (this.#state === 'open') this.#change('half-open', 0)
    return true
  }

  /** How long until a call may pass. */
  waitMs(nowMs: number): number {
    return this.#state === 'closed' ? 0 : Math.max(0, this.#openUntilMs - nowMs)
  }

  succeed(nowMs: number, isProbe: boolean): void {
    if (this.#state === 'closed') {
      this.#failuresInRow = 0
      this.#count(nowMs, false)
      return
    }
    // Calls that began before it opened prove nothing about the present.
    if (!isProbe) return
    this.#isProbing = false
    this.#failuresInRow = 0
    this.#calls.fill(0)
    this.#failures.fill(0)
    this.#closedMs = nowMs
    this.#change('closed', 0)
  }

  /** `silentFromMs` is when a call began that was not answered in time. */
  fail(nowMs: number, isProbe: boolean, silentFromMs?: number): void {
    if (this.#state !== 'closed') {
      if (!isProbe) return
      this.#isProbing = false
      this.#open(nowMs)
      return
    }
    // A row of failures that began before this window no longer counts either.
    if (nowMs - this.#firstFailureMs >= this.#settings.windowMs) this.#failuresInRow = 0
    if (this.#failuresInRow === 0) this.#firstFailureMs = nowMs
    this.#failuresInRow++
    this.#count(nowMs, true)
    if (silentFromMs !== undefined && !this.#isLongSilence(nowMs, silentFromMs)) return
    if (this.#isTooMuch(nowMs)) this.#open(nowMs)
  }

  /** Ignores a call that failed because of this process or the caller. */
  ignore(isProbe: boolean): void {
    if (isProbe) this.#isProbing = false
  }

  #isLongSilence(nowMs: number, silentFromMs: number): boolean {
    if (nowMs - this.#silentMs >= this.#settings.windowMs) this.#silentSinceMs = nowMs
    this.#silentMs = nowMs
    const isLong = nowMs - this.#silentSinceMs >= SILENCE_MS_MIN
    return isLong && silentFromMs >= this.#silentSinceMs
  }

  #isTooMuch(nowMs: number): boolean {
    const { callsMin, errorRate } = this.#settings
    const isDead = nowMs - this.#firstFailureMs >= FAILURES_SPAN_MS_MIN
    if (this.#failuresInRow >= callsMin && isDead) return true
    const calls = sum(this.#calls)
    return calls >= callsMin && sum(this.#failures) > errorRate * calls
  }

  #open(nowMs: number): void {
    const { openFirstMs, openMs, windowMs } = this.#settings
    // One that was closed only for a moment is still the same outage.
    const isAnother = this.#state === 'closed' && nowMs - this.#closedMs > windowMs
    if (isAnother) this.#downSinceMs = nowMs
    const shareMs = (nowMs - this.#downSinceMs) * PAUSE_SHARE
    const pauseMs = Math.min(Math.max(openFirstMs, Math.round(shareMs)), openMs)
    this.#openUntilMs = nowMs + pauseMs * (1 - JITTER * this.#random())
    this.#failuresInRow = 0
    this.#change('open', pauseMs)
  }

  #change(to: BreakerState, openMs: number): void {
    const from = this.#state
    this.#state = to
    this.#onChange(from, to, openMs)
  }

  #count(nowMs: number, isFailure: boolean): void {
    const step = Math.floor((nowMs * STEPS) / this.#settings.windowMs)
    const passed = Math.min(step - this.#step, STEPS)
    for (let back = 0; back < passed; back++) {
      this.#calls[(step - back) % STEPS] = 0
      this.#failures[(step - back) % STEPS] = 0
    }
    this.#step = Math.max(this.#step, step)
    const at = this.#step % STEPS
    this.#calls[at] = (this.#calls[at] as number) + 1
    if (isFailure) this.#failures[at] = (this.#failures[at] as number) + 1
  }
}

/** From 0 to 1. */
function randomShare(): number {
  return randomInt(0, 2 ** 32) / 2 ** 32
}

function sum(counts: Uint32Array): number {
  let total = 0
  for (const count of counts) total += count
  return total
}
