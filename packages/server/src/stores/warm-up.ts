/**
 * Asks a store until all of its servers have answered. After that, connections to the nodes of a
 * cluster are open and the scripts are loaded, so the first decision does not wait for them.
 */

/** Short against the time that a server takes to start. */
const RETRY_MS = 50

export class WarmUp {
  /** Rejects if the servers do not answer at the first attempt; later attempts follow. */
  readonly firstAttempt: Promise<void>
  readonly #ask: () => Promise<void>
  #timer: NodeJS.Timeout | undefined
  #isDone = false
  #isStopped = false

  /** `ask` rejects after a bounded time. */
  constructor(ask: () => Promise<void>) {
    this.#ask = ask
    this.firstAttempt = this.#attempt()
    this.firstAttempt.catch(() => undefined)
  }

  get isDone(): boolean {
    return this.#isDone
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  async #attempt(): Promise<void> {
    try {
      await this.#ask()
      this.#isDone = true
    } catch (error) {
      if (!this.#isStopped) this.#timer = setTimeout(this.#retry, RETRY_MS).unref()
      throw error
    }
  }

  readonly #retry = () => {
    this.#attempt().catch(() => undefined)
  }
}
