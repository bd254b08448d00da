/**
 * The connection of a process to another region in virtual time, with the rules of the real one:
 * a deadline, answers that arrive late, and a region that counts as cut off after three messages
 * without an answer, until it answers a ping. Nothing is sent twice.
 */

import { TidegateError } from 'tidegate'
import type { PeerLink } from '../../../packages/server/src/regions/peer/peer-link.ts'
import type { Network } from '../network.ts'
import type { Timeline } from '../timeline.ts'

/** Handles a call in a region; the answer leaves when it resolves. */
type Handle = (from: number, body: Uint8Array) => Promise<Uint8Array>

export interface HomeLinkOptions {
  readonly peer: string
  readonly from: number
  readonly to: number
  readonly network: Network
  readonly timeline: Timeline
  readonly deadlineMs: number
  /** Undefined while the other region is down. */
  handlerOf(): Handle | undefined
  /** Called before promises are settled, so that their callbacks run before the next event. */
  stir(): void
}

const UNANSWERED_MAX = 3
const PING_MS = 1_000
const PING = new Uint8Array(64)

// Made once, because each has a trace of its stack.
const cutOff = new TidegateError('store-unreachable', 'the region is cut off')
const timedOut = new TidegateError('store-timeout', 'no answer within the deadline')
const failed = new TidegateError('store-failed', 'the region could not decide')

export class HomeLink implements PeerLink {
  readonly peer: string
  isUp = true
  roundTripMs: number | undefined
  readonly #options: HomeLinkOptions
  #isClosed = false
  #unanswered = 0

  constructor(options: HomeLinkOptions, firstPingMs: number) {
    this.peer = options.peer
    this.#options = options
    const { timeline } = options
    const ping = () => {
      if (this.#isClosed) return
      this.#ping()
      timeline.after(PING_MS, ping)
    }
    timeline.after(firstPingMs, ping)
  }

  /** The process has died: it gets no answers. */
  close(): void {
    this.#isClosed = true
  }

  request(
    _type: number,
    body: Uint8Array,
    onLate?: (body: Uint8Array) => void,
  ): Promise<Uint8Array> {
    if (this.#isClosed || !this.isUp) {
      return Promise.reject(cutOff)
    }
    const { timeline, deadlineMs, stir } = this.#options
    return new Promise((resolve, reject) => {
      let isDecided = false
      const decide = (run: () => void) => {
        if (this.#isClosed) return
        stir()
        isDecided = true
        run()
      }
      timeline.after(deadlineMs, () => {
        if (isDecided) return
        this.#unanswered++
        if (this.#unanswered >= UNANSWERED_MAX) this.isUp = false
        decide(() => reject(timedOut))
      })
      this.#exchange(body, (answer) => {
        if (answer === undefined) {
          if (!isDecided) decide(() => reject(failed))
        } else if (isDecided) decide(() => onLate?.(answer))
        else {
          this.#unanswered = 0
          decide(() => resolve(answer))
        }
      })
    })
  }

  #ping(): void {
    const { timeline, network, from, to } = this.#options
    const sentMs = timeline.nowMs
    network.send(from, to, PING, () => {
      if (this.#options.handlerOf() === undefined) return
      network.send(to, from, PING, () => {
        this.roundTripMs = timeline.nowMs - sentMs
        this.#unanswered = 0
        this.isUp = this.roundTripMs <= this.#options.deadlineMs
      })
    })
  }

  /** Calls `done` with the answer, or with undefined if the region could not decide. */
  #exchange(body: Uint8Array, done: (answer: Uint8Array | undefined) => void): void {
    const { network, from, to, stir } = this.#options
    const answer = (bytes: Uint8Array | undefined) => {
      network.send(to, from, bytes ?? PING, () => done(bytes))
    }
    network.send(from, to, body, () => {
      const handle = this.#options.handlerOf()
      if (handle === undefined) return
      stir()
      handle(from, body).then(answer, () => answer(undefined))
    })
  }
}
