/**
 * Bounds how many requests are handled in one turn of the event loop. Without a bound, clients that
 * answer a response with the next request keep the loop busy with reading: it goes on to timers and
 * to everything that waits for the end of the turn only after 48 times 1,024 events.
 *
 * Requests beyond the bound wait for the next turn, in the order in which they came; urgent ones
 * do not wait. No more can wait than there are connections and streams.
 */

export interface RequestTurnsOptions<T> {
  handle(request: T): void
  /** Asked only about requests that would have to wait. */
  isUrgent(request: T): boolean
  /** Reports how long the request has waited that was taken last in a turn. */
  onWait(waitedMs: number): void
}

/**
 * About 10 ms of work, which is as long as a request may wait without anybody noticing. A turn of a
 * loop that keeps up has less.
 */
const REQUESTS_PER_TURN = 256

/** A turn with fewer requests is not worth a look at its end. */
const REQUESTS_UNNOTICED = 32

interface Waiting<T> {
  readonly request: T
  readonly sinceMs: number
}

export class RequestTurns<T> {
  readonly #options: RequestTurnsOptions<T>
  /** Requests handled since the last end of a turn that was looked at. */
  #count = 0
  #isLooking = false
  #waiting: Waiting<T>[] = []
  #at = 0

  constructor(options: RequestTurnsOptions<T>) {
    this.#options = options
  }

  take(request: T): void {
    this.#count += 1
    if (this.#count >= REQUESTS_UNNOTICED && !this.#isLooking) this.#look()
    const mustWait = this.#count > REQUESTS_PER_TURN || this.#waiting.length > 0
    if (mustWait && !this.#options.isUrgent(request)) {
      this.#waiting.push({ request, sinceMs: performance.now() })
    } else this.#options.handle(request)
  }

  #look(): void {
    this.#isLooking = true
    setImmediate(this.#endTurn)
  }

  readonly #endTurn = () => {
    this.#isLooking = false
    const end = Math.min(this.#waiting.length, this.#at + REQUESTS_PER_TURN)
    this.#count = end - this.#at
    let sinceMs: number | undefined
    for (; this.#at < end; this.#at++) {
      const waiting = this.#waiting[this.#at] as Waiting<T>
      sinceMs = waiting.sinceMs
      this.#options.handle(waiting.request)
    }
    if (this.#at === this.#waiting.length) {
      this.#waiting = []
      this.#at = 0
    } else {
      if (this.#at > REQUESTS_PER_TURN) this.#compact()
      this.#look()
    }
    if (sinceMs !== undefined) this.#options.onWait(performance.now() - sinceMs)
  }

  /** Lets go of the requests that were taken. */
  #compact(): void {
    this.#waiting = this.#waiting.slice(this.#at)
    this.#at = 0
  }
}
