/**
 * Asks a store for nothing until it has answered everywhere: connections to all nodes of a cluster
 * are open then, and scripts are loaded, so that the first call is not the one to wait for it.
 */

import { fixedWindow } from 'tidegate'
import type { OpenStore } from '../stores/create-store.ts'

/** Enough that each of a few nodes is among them; more nodes than that are met by and by. */
const KEYS = 32

const RETRY_MS = 50

const limit = fixedWindow({ limit: 1, per: '1s' })

export class WarmUp {
  readonly #store: OpenStore
  #timer: NodeJS.Timeout | undefined
  #next = 0

  constructor(store: OpenStore) {
    this.#store = store
    void this.#go()
  }

  get isDone(): boolean {
    return this.#next >= KEYS
  }

  stop(): void {
    this.#next = KEYS
    clearTimeout(this.#timer)
  }

  async #go(): Promise<void> {
    while (!this.isDone) {
      if (!this.#store.isConnected() || !(await this.#ask(`warm-up-${this.#next}`))) {
        this.#timer = setTimeout(() => void this.#go(), RETRY_MS)
        this.#timer.unref()
        return
      }
      this.#next++
    }
  }

  /** Whether the store itself has answered. */
  async #ask(key: string): Promise<boolean> {
    try {
      const charge = { name: 'rls.warm-up', limit, key, cost: 0 }
      const [decision] = await this.#store.store.charge([charge], 'peek')
      return decision?.degraded === null
    } catch {
      return false
    }
  }
}
