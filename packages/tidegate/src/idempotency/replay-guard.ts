/**
 * Bounds the replays that each sender gets from this process. Replays are not charged to limits, so
 * without a bound they would be free: each one still costs a command to the store. The guard is in
 * memory and asks nothing of the store.
 */

import { type Clock, steadyClock } from '../clock.ts'
import { AgeMap } from '../stores/age-map.ts'

interface Level {
  used: number
  atMs: number
}

/** About 1 MB. If there are more senders at a time, the one with the oldest replay is forgotten. */
const SENDERS_MAX = 10_000

/** Seconds of replays that may come at once, as after a network failure. */
const BURST_SECONDS = 10

export class ReplayGuard {
  readonly #perSecond: number
  readonly #clock: Pick<Clock, 'now'>
  readonly #levels = new AgeMap<Level>()

  constructor(perSecond: number, clock: Pick<Clock, 'now'> = steadyClock) {
    this.#perSecond = perSecond
    this.#clock = clock
  }

  /** False if the sender has had too many replays. */
  admits(sender: string): boolean {
    const level = this.#levels.get(sender)
    if (level === undefined) return true
    this.#drain(level)
    if (level.used === 0) this.#levels.delete(sender)
    return level.used + 1 <= this.#perSecond * BURST_SECONDS
  }

  /** Counts a replay. */
  note(sender: string): void {
    const level = this.#levels.get(sender) ?? { used: 0, atMs: this.#clock.now() }
    this.#drain(level)
    level.used += 1
    this.#levels.set(sender, level)
    const oldest = this.#levels.size > SENDERS_MAX ? this.#levels.oldest() : undefined
    if (oldest !== undefined) this.#levels.delete(oldest)
  }

  #drain(level: Level): void {
    const nowMs = this.#clock.now()
    level.used = Math.max(0, level.used - ((nowMs - level.atMs) * this.#perSecond) / 1_000)
    level.atMs = nowMs
  }
}
