/**
 * Asks a store until all of its servers have answered: connections to the nodes of a cluster are
 * open then and the scripts are loaded, so that the first call does not wait for them.
 */

import type { OpenStore } from '../stores/create-store.ts'

const RETRY_MS = 50

export class WarmUp {
  readonly #store: OpenStore
  #timer: NodeJS.Timeout | undefined
  #isDone = false
  #isStopped = false

  constructor(store: OpenStore) {
    this.#store = store
    void this.#ask()
  }

  get isDone(): boolean {
    return this.#isDone
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  async #ask(): Promise<void> {
    try {
      await this.#store.ready()
      this.#isDone = true
    } catch {
      if (!this.#isStopped) this.#timer = setTimeout(() => void this.#ask(), RETRY_MS).unref()
    }
  }
}
