/** Gives a connection up whose client does not take what was written for it. */

import type { Socket } from 'node:net'
import type { SendQueues } from '../send-queues.ts'
import type { SlowClients } from '../slow-clients.ts'

/** Of looks at which nothing was taken: after ten to fifteen seconds. */
const STALLED_LOOKS = 3

/**
 * The same of a client that was slow and did take something: about a minute. Where the system does
 * not tell what it has still to send, nothing shows of what a client takes until a good part of the
 * system's buffers is free, which are megabytes.
 */
const STALLED_LOOKS_OF_READERS = 12

/** Between two looks. Who takes less might as well take nothing. */
const TAKEN_BYTES_MIN = 1_280

export class StallWatch {
  readonly #socket: Socket
  readonly #slowClients: SlowClients
  #looks: number | undefined
  #hasTaken = false
  /** What the system had still to send at the last look. */
  #queuedBytes: number | undefined

  constructor(socket: Socket, slowClients: SlowClients) {
    this.#socket = socket
    this.#slowClients = slowClients
  }

  /** Until all is taken. */
  watch(): void {
    if (this.#looks !== undefined) return
    this.#looks = 0
    this.#queuedBytes = undefined
    this.#slowClients.watch(this.#look, true)
    this.#socket.once('drain', this.#onDrain)
  }

  forget(): void {
    if (this.#looks === undefined) return
    this.#looks = undefined
    this.#slowClients.forget(this.#look)
    this.#socket.off('drain', this.#onDrain)
  }

  readonly #onDrain = () => {
    if (this.#looks !== undefined && this.#looks > 0) this.#hasTaken = true
    this.forget()
  }

  readonly #look = (queues: SendQueues | undefined) => {
    const queuedBytes = queues?.of(this.#socket)
    const before = this.#queuedBytes
    this.#queuedBytes = queuedBytes
    if (before !== undefined && queuedBytes !== undefined) {
      if (before - queuedBytes >= TAKEN_BYTES_MIN) {
        this.#hasTaken = true
        this.#looks = 0
        return
      }
    }
    this.#looks = (this.#looks ?? 0) + 1
    if (this.#socket.writableLength === 0) this.forget()
    else if (this.#looks >= this.#patience) this.#socket.destroy()
  }

  get #patience(): number {
    return this.#hasTaken ? STALLED_LOOKS_OF_READERS : STALLED_LOOKS
  }
}
