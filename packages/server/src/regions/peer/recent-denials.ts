/**
 * Denials of another region, repeated for as long as they hold and at most for a second: a flood on
 * an exhausted key does not cross the link.
 */

import type { Decision } from 'tidegate'

/** A key that is given back units in another region is denied for at most this time. */
const REPEAT_MS_MAX = 1_000

/** About 200 bytes each. */
const DENIALS_MAX = 16_384

interface Denial {
  readonly cost: number
  readonly atMs: number
  readonly untilMs: number
  readonly decision: Decision
}

export class RecentDenials {
  readonly #repeatMsMax: number
  readonly #denials = new Map<string, Denial>()
  /** Kept, because a new iterator passes the places of all entries that were deleted. */
  readonly #labels = this.#denials.keys()

  /** How long a denial is repeated at most. */
  constructor(repeatMsMax = REPEAT_MS_MAX) {
    this.#repeatMsMax = repeatMsMax
  }

  add(label: string, cost: number, decision: Decision, nowMs: number): void {
    const untilMs = nowMs + Math.min(decision.retryAfterMs, this.#repeatMsMax)
    this.#denials.delete(label)
    if (this.#denials.size >= DENIALS_MAX) this.#dropOldest()
    this.#denials.set(label, { cost, atMs: nowMs, untilMs, decision })
  }

  /** The denial of an earlier call that asked for as much or less. */
  find(label: string, cost: number, nowMs: number): Decision | undefined {
    const denial = this.#denials.get(label)
    if (denial === undefined) return undefined
    if (nowMs >= denial.untilMs) {
      this.#denials.delete(label)
      return undefined
    }
    if (cost < denial.cost) return undefined
    const sinceMs = Math.floor(nowMs - denial.atMs)
    const { decision } = denial
    return {
      ...decision,
      retryAfterMs: Math.max(1, decision.retryAfterMs - sinceMs),
      resetAfterMs: Math.max(1, decision.resetAfterMs - sinceMs),
      source: 'cache',
    }
  }

  forget(label: string): void {
    this.#denials.delete(label)
  }

  /** The iterator passes no entry but to drop it, so that it does not end while there is one. */
  #dropOldest(): void {
    const label = this.#labels.next().value
    if (label !== undefined) this.#denials.delete(label)
  }
}
