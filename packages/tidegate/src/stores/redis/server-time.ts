/**
 * This process's estimate of the server's time. Decisions use the server's own time. The estimate
 * is only for the windows of calendars, which the server cannot compute and gets as arguments.
 */

import { type Clock, systemClock } from '../../clock.ts'
import { SERVER_TIME } from './scripts/script-arguments.ts'

export class ServerTime {
  readonly #testClock: Clock | undefined
  /** The server's time less this process's, as of the last reply. */
  #offsetMs = 0

  constructor(testClock: Clock | undefined) {
    this.#testClock = testClock
  }

  now(): number {
    return this.#testClock?.now() ?? systemClock.now() + this.#offsetMs
  }

  /** The time argument of the scripts: the server's own, or that of a test. */
  argument(): string {
    return this.#testClock === undefined ? SERVER_TIME : String(Math.floor(this.#testClock.now()))
  }

  /** Learns from a reply that begins with the server's time. */
  learn(reply: unknown): void {
    if (Array.isArray(reply)) this.set(Number(reply[0]))
  }

  set(serverMs: number): void {
    this.#offsetMs = serverMs - systemClock.now()
  }
}
