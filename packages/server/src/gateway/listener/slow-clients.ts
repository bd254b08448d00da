/**
 * Finds clients that send or take so slowly that they only hold a connection. One timer looks at
 * all transfers that are waiting for their client; what waits for an upstream is not looked at.
 */

import { readSendQueues, type SendQueues } from './send-queues.ts'

/** Long enough for a hiccup of a network, short enough that slow clients do not pile up. */
export const LOOK_INTERVAL_MS = 5_000

/** Called at every interval until it is forgotten; with what the system has to send, if known. */
export type Look = (queues: SendQueues | undefined) => void

export class SlowClients {
  readonly #looks = new Set<Look>()
  /** Those that ask what the system has still to send: it takes some milliseconds to find out. */
  readonly #askers = new Set<Look>()
  readonly #readQueues: () => Promise<SendQueues | undefined>
  #timer: NodeJS.Timeout | undefined

  constructor(readQueues = readSendQueues) {
    this.#readQueues = readQueues
  }

  watch(look: Look, asksForQueues = false): void {
    this.#looks.add(look)
    if (asksForQueues) this.#askers.add(look)
    this.#timer ??= setInterval(() => void this.#lookAtAll(), LOOK_INTERVAL_MS).unref()
  }

  forget(look: Look): void {
    this.#looks.delete(look)
    this.#askers.delete(look)
  }

  async #lookAtAll(): Promise<void> {
    if (this.#looks.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const queues = this.#askers.size === 0 ? undefined : await this.#readQueues()
    for (const look of this.#looks) look(queues)
  }
}
