/**
 * The server's time, as far as this process can tell. Decisions are made by the server's own; this
 * is only for the windows of calendars, which the server cannot compute and gets from here.
 */

import { type Clock, systemClock } from '../../clock.ts'
import { SERVER_TIME } from './script-call.ts'

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

  /** What the scripts take as time: their own, or that of a test. */
  argument(): string {
    return this.#testClock === undefined ? SERVER_TIME : String(Math.floor(this.#testClock.now()))
  }

  /** From a reply that begins with its time. */
  learn(reply: unknown): void {
    if (Array.isArray(reply)) this.set(Number(reply[0]))
  }

  set(serverMs: number): void {
    this.#offsetMs = serverMs - systemClock.now()
  }
}
