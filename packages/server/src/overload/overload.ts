/**
 * Decides which requests a process refuses because it cannot serve all: the controller that every
 * listener of the process shares. It knows two things, both measured: how late the event loop and
 * the requests that wait for it are, and how many requests are in flight.
 *
 * Lateness moves one number, the level. From 0 to 1 it is the share of sheddable requests that is
 * refused. From 1 to 2 all of those are refused, and the share above 1 of normal ones. So no normal
 * request is refused for lateness while a sheddable one is admitted. Requests in flight have a
 * maximum for each priority. Critical requests are refused at the last maximum only, never for
 * lateness.
 *
 * A burst is not an overload: the level rises only after lateness has lasted. Until then requests
 * wait in line, and critical ones overtake them.
 *
 * Nothing is queued here, and admitted requests are never cut off. docs/decisions/shedding.md has
 * the reasons.
 */

import type { Priority } from '../limits/priority.ts'
import type { OverloadEvent } from '../observability/events.ts'

export interface OverloadSettings {
  /** How late the event loop may be, turn after turn, in milliseconds. */
  readonly delay: number
  /** Requests in flight, all priorities together. */
  readonly requestsMax: number
  /** The share of them that only critical requests may take. */
  readonly criticalShare: number
}

export type ShedCounts = Readonly<Record<Priority, number>>

export interface OverloadStatus {
  readonly delayMs: number
  readonly requests: number
  /** The share of each priority that is refused for lateness. */
  readonly sheddingShare: Readonly<Record<Priority, number>>
  /** Requests refused since the process started. */
  readonly shed: ShedCounts
}

export interface OverloadOptions {
  readonly observer?: (event: OverloadEvent) => void
  /** From 0 to below 1. Default: `Math.random`. */
  readonly random?: () => number
}

/**
 * A single pause, such as a garbage collection, makes one sample late. Three late ones in a row are
 * a loop that does not catch up. The smallest of them is what every request waits at least.
 */
const SAMPLES = 3

/**
 * How long lateness must last before requests are refused for it. 4,000 clients that connect at
 * once and send two requests each take 1 to 2 s on half of a shared core, and all are served.
 */
const BURST_MS = 3_000

/** At a delay just above the bound, a priority is shed from nothing to all in one second. */
const RISE_PER_SECOND = 1

/** A delay of 4 times the bound is corrected 4 times as fast; a faster one would overshoot. */
const OVERSHOOT_MAX = 4

/**
 * Traffic comes back several times as slowly as it goes, so that it finds the next overload by
 * small steps and the level does not swing. Each second without lateness adds as much to the speed:
 * after an overload that is over, everything is back in 5 s.
 */
const FALL_PER_SECOND = 0.15

/** Below half of the bound there is room for more; between half and all of it the level stays. */
const ROOM = 0.5

/** A longer pause of the process says no more than this about load; it may have been suspended. */
const STEP_MS_MAX = 500

/** Shedding is over when no request was refused for this long, so that logs do not flap. */
const CALM_MS = 5_000

/**
 * To refuse takes time, too: 3,600 connections that ask again at once cost 70 ms each time. A tenth
 * of the shortest time that they are asked to wait lets a loop that keeps up serve them soon.
 */
const HOLD_MS_FIRST = 100

/** The shortest time that a refused client is asked to wait. */
const HOLD_MS_MAX = 1_000

const LEVEL_MAX = 2

export class Overload {
  readonly #observer: (event: OverloadEvent) => void
  readonly #random: () => number
  #settings: OverloadSettings
  #maxima: Readonly<Record<Priority, number>>
  readonly #samples: number[] = []
  #delayMs = 0
  #waitedMs = 0
  #level = 0
  /** How long the loop was too late, less the time that it was on time since. */
  #lateMs = 0
  /** Time since the loop was last too late. */
  #onTimeMs = 0
  #requests = 0
  readonly #shed = { sheddable: 0, normal: 0, critical: 0 }
  /** What `#shed` was when the last overload ended. */
  #shedBefore: ShedCounts = { sheddable: 0, normal: 0, critical: 0 }
  /** The sum of `#shed` at the last sample. */
  #shedSeen = 0
  #isOverloaded = false
  #lastedMs = 0
  #calmMs = 0

  constructor(settings: OverloadSettings, options: OverloadOptions = {}) {
    const { observer = () => undefined, random = Math.random } = options
    this.#observer = observer
    this.#random = random
    this.#settings = settings
    this.#maxima = maximaOf(settings)
  }

  /** Replaces the settings; requests in flight and the level stay. */
  configure(settings: OverloadSettings): void {
    this.#settings = settings
    this.#maxima = maximaOf(settings)
  }

  /** True if no request is refused or has to wait, so that priorities need not be looked up. */
  get isCalm(): boolean {
    return this.#level === 0 && this.#lateMs === 0 && this.#requests < this.#maxima.sheddable
  }

  /**
   * How long requests are not read from a connection after so many refusals in a row. It doubles
   * with each, and is drawn from the upper half so that connections do not come back together.
   */
  holdMs(refusals: number): number {
    const longestMs = Math.min(HOLD_MS_MAX, HOLD_MS_FIRST * 2 ** (refusals - 1))
    return Math.ceil(longestMs * (1 - this.#random() / 2))
  }

  /** Decides on one request, and counts it if it is refused. */
  admits(priority: Priority): boolean {
    const isAdmitted = this.#requests < this.#maxima[priority] && !this.#isDrawn(priority)
    if (!isAdmitted) this.#shed[priority] += 1
    return isAdmitted
  }

  /** Counts an admitted request. */
  enter(): void {
    this.#requests += 1
  }

  /** An admitted request has ended. */
  leave(): void {
    this.#requests -= 1
  }

  /** A request has waited this long for its turn; the longest wait is part of the next sample. */
  noteWait(waitedMs: number): void {
    this.#waitedMs = Math.max(this.#waitedMs, waitedMs)
  }

  /** Takes a sample of how late the event loop is; `elapsedMs` is the time since the last one. */
  observe(delayMs: number, elapsedMs: number): void {
    if (this.#samples.length >= SAMPLES) this.#samples.shift()
    this.#samples.push(Math.max(delayMs, this.#waitedMs))
    this.#waitedMs = 0
    this.#delayMs = this.#samples.length < SAMPLES ? 0 : Math.min(...this.#samples)
    const load = this.#delayMs / this.#settings.delay
    this.#onTimeMs = load > 1 ? 0 : this.#onTimeMs + elapsedMs
    this.#lateMs = clamp(this.#lateMs + (load > 1 ? elapsedMs : -elapsedMs), 0, BURST_MS)
    const isBurst = load > 1 && this.#level === 0 && this.#lateMs < BURST_MS
    if (!isBurst) this.#moveLevel(load, Math.min(elapsedMs, STEP_MS_MAX) / 1_000)
    this.#notice(elapsedMs)
  }

  status(): OverloadStatus {
    return {
      delayMs: Math.round(this.#delayMs),
      requests: this.#requests,
      sheddingShare: {
        sheddable: rounded(shareOf('sheddable', this.#level)),
        normal: rounded(shareOf('normal', this.#level)),
        critical: 0,
      },
      shed: { ...this.#shed },
    }
  }

  #moveLevel(load: number, seconds: number): void {
    this.#level = nextLevel(this.#level, load, seconds, this.#onTimeMs / 1_000)
  }

  #isDrawn(priority: Priority): boolean {
    const share = shareOf(priority, this.#level)
    return share > 0 && this.#random() < share
  }

  /** Reports the beginning and the end of shedding. */
  #notice(elapsedMs: number): void {
    const { sheddable, normal, critical } = this.#shed
    const total = sheddable + normal + critical
    const hasShed = total > this.#shedSeen
    this.#shedSeen = total
    this.#calmMs = hasShed ? 0 : this.#calmMs + elapsedMs
    this.#lastedMs += elapsedMs
    if (!this.#isOverloaded && hasShed) {
      this.#isOverloaded = true
      this.#lastedMs = 0
      this.#observer({ type: 'overloaded', delayMs: this.#delayMs, requests: this.#requests })
    } else if (this.#isOverloaded && this.#calmMs >= CALM_MS) {
      this.#isOverloaded = false
      const before = this.#shedBefore
      this.#shedBefore = { ...this.#shed }
      const shed = {
        sheddable: sheddable - before.sheddable,
        normal: normal - before.normal,
        critical: critical - before.critical,
      }
      this.#observer({ type: 'overload-ended', forMs: this.#lastedMs - this.#calmMs, shed })
    }
  }
}

/** Each priority leaves a share of what it could have to those above it. */
function maximaOf({ requestsMax, criticalShare }: OverloadSettings) {
  const normal = Math.ceil(requestsMax * (1 - criticalShare))
  const sheddable = Math.ceil(normal * (1 - criticalShare))
  return { sheddable, normal, critical: requestsMax }
}

/** `load` is the delay as a multiple of its bound. */
function nextLevel(level: number, load: number, seconds: number, onTimeSeconds: number): number {
  if (load > 1) {
    return Math.min(LEVEL_MAX, level + RISE_PER_SECOND * Math.min(load, OVERSHOOT_MAX) * seconds)
  }
  if (load >= ROOM) return level
  return Math.max(0, level - FALL_PER_SECOND * (1 + onTimeSeconds) * seconds)
}

function shareOf(priority: Priority, level: number): number {
  if (priority === 'critical') return 0
  return Math.min(1, Math.max(0, priority === 'normal' ? level - 1 : level))
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value))
}

function rounded(share: number): number {
  return Math.round(share * 1_000) / 1_000
}
