/** Links between regions, each direction by itself: delay, loss, duplicates, cuts and bandwidth. */

import type { Random } from '../e2e/rls/random.ts'
import { chance } from './forked-random.ts'
import type { Timeline } from './timeline.ts'

export interface LinkSettings {
  readonly delayMs: number
  /** Added at random, so that messages overtake one another. */
  readonly jitterMs: number
  readonly loss: number
  readonly duplication: number
  readonly bytesPerMs: number
}

type Deliver = (from: number, to: number, body: Uint8Array) => void

export class Network {
  bytes = 0
  messages = 0
  readonly #timeline: Timeline
  readonly #random: Random
  readonly #settings: LinkSettings
  readonly #deliver: Deliver
  /** Until when each direction is cut, and busy. */
  readonly #cutUntilMs = new Map<number, number>()
  readonly #busyUntilMs = new Map<number, number>()
  #isHealed = false

  constructor(timeline: Timeline, random: Random, settings: LinkSettings, deliver: Deliver) {
    this.#timeline = timeline
    this.#random = random
    this.#settings = settings
    this.#deliver = deliver
  }

  cut(from: number, to: number, forMs: number): void {
    const untilMs = this.#timeline.nowMs + forMs
    const link = linkOf(from, to)
    this.#cutUntilMs.set(link, Math.max(this.#cutUntilMs.get(link) ?? 0, untilMs))
  }

  /** Ends all cuts and all loss, so that what regions know in the end is not a matter of luck. */
  healAll(): void {
    this.#cutUntilMs.clear()
    this.#isHealed = true
  }

  /** `deliver` replaces that of the network for this message. */
  send(from: number, to: number, body: Uint8Array, deliver = this.#deliver): void {
    this.bytes += body.length
    this.messages++
    const { loss, duplication } = this.#settings
    if (chance(this.#random, loss) && !this.#isHealed) return
    this.#carry(from, to, body, deliver)
    if (chance(this.#random, duplication)) this.#carry(from, to, body, deliver)
  }

  #carry(from: number, to: number, body: Uint8Array, deliver: Deliver): void {
    const { delayMs, jitterMs, bytesPerMs } = this.#settings
    const { nowMs } = this.#timeline
    const link = linkOf(from, to)
    const startMs = Math.max(nowMs, this.#busyUntilMs.get(link) ?? 0)
    const sentMs = startMs + body.length / bytesPerMs
    this.#busyUntilMs.set(link, sentMs)
    const arrivalMs = sentMs + delayMs + this.#random.below(jitterMs + 1)
    this.#timeline.at(arrivalMs, () => {
      // A cut loses messages that are sent or due while it lasts.
      const cutUntilMs = this.#cutUntilMs.get(link) ?? 0
      if (nowMs < cutUntilMs || this.#timeline.nowMs < cutUntilMs) return
      deliver(from, to, body)
    })
  }
}

function linkOf(from: number, to: number): number {
  return from * 64 + to
}
