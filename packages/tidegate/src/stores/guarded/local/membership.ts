/**
 * The number of processes that share a store. Each registers every 2 seconds, and gets the number
 * of registered processes. While the store does not answer, the last number stays.
 */

import { repeat, steadyClock } from '../../../clock.ts'
import { randomUUID } from '../../../runtime.ts'
import type { StoreCapabilities } from '../../store.ts'

/** Often enough that a process that has just started is soon counted. */
const HEARTBEAT_MS = 2_000

/** A process that has missed five heartbeats no longer counts. */
const LIFETIME_MS = 10_000

/** The longest time to unregister. Otherwise the registration expires by itself. */
const STOP_MS_MAX = 1_000

export class Membership {
  readonly #heartbeat: StoreCapabilities['heartbeat']
  readonly #onChange: (count: number) => void
  /** Made at first use: Workers have no random numbers while a module is loaded. */
  #id: string | undefined
  #count = 1
  #stopTimer: (() => void) | undefined

  constructor(heartbeat: StoreCapabilities['heartbeat'], onChange: (count: number) => void) {
    this.#heartbeat = heartbeat
    this.#onChange = onChange
  }

  get count(): number {
    return this.#count
  }

  /** Begins with the first call, and does not keep the process alive. */
  start(): void {
    if (this.#stopTimer !== undefined || this.#heartbeat === undefined) return
    this.#stopTimer = repeat(() => void this.#beat(), HEARTBEAT_MS)
    void this.#beat()
  }

  async stop(): Promise<void> {
    if (this.#stopTimer === undefined) return
    this.#stopTimer()
    this.#stopTimer = undefined
    await new Promise<void>((resolve) => {
      const cancel = steadyClock.schedule(resolve, STOP_MS_MAX)
      void this.#register(0).then(() => {
        cancel()
        resolve()
      })
    })
  }

  async #beat(): Promise<void> {
    const count = await this.#register(LIFETIME_MS)
    if (this.#stopTimer === undefined || count === this.#count) return
    if (count === undefined || !Number.isSafeInteger(count) || count < 1) return
    this.#count = count
    this.#onChange(count)
  }

  /** Returns the number of processes; undefined if the store does not answer. */
  async #register(lifetimeMs: number): Promise<number | undefined> {
    try {
      this.#id ??= randomUUID()
      return await this.#heartbeat?.(this.#id, lifetimeMs)
    } catch {
      return undefined
    }
  }
}
