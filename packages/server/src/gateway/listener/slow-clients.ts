/**
 * Finds clients that send or take so slowly that they only hold a connection. One timer looks at
 * all transfers that are waiting for their client; what waits for an upstream is not looked at.
 */

/** Long enough for a hiccup of a network, short enough that slow clients do not pile up. */
export const LOOK_INTERVAL_MS = 5_000

/** Called at every interval until it is forgotten. */
export type Look = () => void

export class SlowClients {
  readonly #looks = new Set<Look>()
  #timer: NodeJS.Timeout | undefined

  watch(look: Look): void {
    this.#looks.add(look)
    this.#timer ??= setInterval(() => this.#lookAtAll(), LOOK_INTERVAL_MS).unref()
  }

  forget(look: Look): void {
    this.#looks.delete(look)
  }

  #lookAtAll(): void {
    if (this.#looks.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    for (const look of this.#looks) look()
  }
}
