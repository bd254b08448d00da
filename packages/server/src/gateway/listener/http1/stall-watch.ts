/** Gives a connection up whose client does not take what was written for it. */

import type { Socket } from 'node:net'
import type { SlowClients } from '../slow-clients.ts'

/** Of looks at which nothing was taken: after ten to fifteen seconds. */
const STALLED_LOOKS = 3

export class StallWatch {
  readonly #socket: Socket
  readonly #slowClients: SlowClients
  #looks: number | undefined

  constructor(socket: Socket, slowClients: SlowClients) {
    this.#socket = socket
    this.#slowClients = slowClients
  }

  /** Until all is taken. */
  watch(): void {
    if (this.#looks !== undefined) return
    this.#looks = 0
    this.#slowClients.watch(this.#look)
    this.#socket.once('drain', this.#onDrain)
  }

  forget(): void {
    if (this.#looks === undefined) return
    this.#looks = undefined
    this.#slowClients.forget(this.#look)
    this.#socket.off('drain', this.#onDrain)
  }

  readonly #onDrain = () => this.forget()

  readonly #look = () => {
    this.#looks = (this.#looks ?? 0) + 1
    if (this.#socket.writableLength === 0) this.forget()
    else if (this.#looks >= STALLED_LOOKS) this.#socket.destroy()
  }
}
