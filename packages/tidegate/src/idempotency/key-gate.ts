/**
 * Requests of one process with the same key: the first leads, the others wait for its outcome. Each
 * waits until its own time is over.
 */

import type { Clock } from '../clock.ts'
import type { KeptResponse, UnkeptResponse } from './stored-response.ts'

export type Turn =
  /** The caller leads, and must call `settle`. */
  | Lead
  | { readonly kind: 'settled'; readonly response: KeptResponse | UnkeptResponse }
  /** The leader has no response: another caller leads now. */
  | { readonly kind: 'again' }
  /** A request with another fingerprint leads. */
  | { readonly kind: 'other-request' }
  | { readonly kind: 'too-late' }

type Response = KeptResponse | UnkeptResponse | undefined

/** The lead of the first request of a key, with those that wait for it. */
export class Lead {
  readonly kind = 'lead'
  readonly fingerprint: string
  /** Most keys have one request, and none waits. */
  waiting: Set<(response: Response) => void> | undefined
  readonly #record: string
  readonly #led: Map<string, Lead>

  constructor(record: string, fingerprint: string, led: Map<string, Lead>) {
    this.fingerprint = fingerprint
    this.#record = record
    this.#led = led
  }

  /** Ends it. Without a response, one of those that wait leads next. Further calls do nothing. */
  settle(response: Response): void {
    if (this.#led.get(this.#record) !== this) return
    this.#led.delete(this.#record)
    if (this.waiting === undefined) return
    for (const resolve of this.waiting) resolve(response)
  }
}

/** Requests that wait in a process, a few kilobytes each. More get 409 at once. */
const WAITING_MAX = 10_000

export class KeyGate {
  readonly #clock: Clock
  readonly #led = new Map<string, Lead>()
  waiting = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  enter(record: string, fingerprint: string, endMs: number): Promise<Turn> | Turn {
    const led = this.#led.get(record)
    if (led === undefined) {
      const lead = new Lead(record, fingerprint, this.#led)
      this.#led.set(record, lead)
      return lead
    }
    if (led.fingerprint !== fingerprint) return { kind: 'other-request' }
    return this.#wait(led, endMs)
  }

  /** Resolves when the leader has settled, or when the time is over. */
  async left(record: string, endMs: number): Promise<void> {
    const led = this.#led.get(record)
    if (led !== undefined) await this.#wait(led, endMs)
  }

  async #wait(led: Lead, endMs: number): Promise<Turn> {
    const leftMs = endMs - this.#clock.now()
    if (leftMs <= 0 || this.waiting >= WAITING_MAX) return { kind: 'too-late' }
    this.waiting += 1
    led.waiting ??= new Set()
    const { waiting } = led
    return new Promise((resolve) => {
      const end = (turn: Turn) => {
        cancel()
        waiting.delete(onSettled)
        this.waiting -= 1
        resolve(turn)
      }
      const cancel = this.#clock.schedule(() => end({ kind: 'too-late' }), leftMs)
      const onSettled = (response: Response) =>
        end(response === undefined ? { kind: 'again' } : { kind: 'settled', response })
      waiting.add(onSettled)
    })
  }
}
