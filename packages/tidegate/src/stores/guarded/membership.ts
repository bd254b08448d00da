/**
 * How many processes share a store: each tells the store every few seconds that it is there, and
 * hears how many are. While the store does not answer, the last number stays.
 */

import { randomUUID } from 'node:crypto'
import { repeat, steadyClock } from '../../clock.ts'
import type { Store } from '../store.ts'

/** Often enough that a process that has just started is soon counted. */
const HEARTBEAT_MS = 2_000

/** A process that has missed a few is gone. */
const LIFETIME_MS = 10_000

/** To tell that it goes. If that takes longer, the others notice by themselves. */
const STOP_MS_MAX = 1_000

export class Membership {
  readonly #store: Store
  readonly #onChange: (count: number) => void
  readonly #id = randomUUID()
  #count = 1
  #stopTimer: (() => void) | undefined

  constructor(store: Store, onChange: (count: number) => void) {
    this.#store = store
    this.#onChange = onChange
  }

  get count(): number {
    return this.#count
  }

  /** Begins with the first call, and does not keep the process alive. */
  start(): void {
    if (this.#stopTimer !== undefined || this.#store.heartbeat === undefined) return
    this.#stopTimer = repeat(() => void this.#beat(), HEARTBEAT_MS)
    void this.#beat()
  }

  async stop(): Promise<void> {
    if (this.#stopTimer === undefined) return
    this.#stopTimer()
    this.#stopTimer = undefined
    await new Promise<void>((resolve) => {
      const cancel = steadyClock.schedule(resolve, STOP_MS_MAX)
      void this.#tell(0).then(() => {
        cancel()
        resolve()
      })
    })
  }

  async #beat(): Promise<void> {
    const count = await this.#tell(LIFETIME_MS)
    if (this.#stopTimer === undefined || count === this.#count) return
    if (count === undefined || !Number.isSafeInteger(count) || count < 1) return
    this.#count = count
    this.#onChange(count)
  }

  /** How many there are; undefined where the store does not say. */
  async #tell(lifetimeMs: number): Promise<number | undefined> {
    try {
      return await this.#store.heartbeat?.(this.#id, lifetimeMs)
    } catch {
      return undefined
    }
  }
}
