/**
 * Bounds how many requests are handled in one turn of the event loop. Without a bound, clients that
 * send the next request as soon as they get a response keep the loop busy with reading: it reaches
 * timers and `setImmediate` only after 48 times 1,024 events.
 *
 * Requests beyond the bound wait for the next turn, in the order of arrival; urgent ones do not
 * wait. At most one request per connection or stream can wait.
 */

export interface RequestTurnsOptions<T> {
  handle(request: T): void
  /** Called only for requests that would have to wait. */
  isUrgent(request: T): boolean
  /** Reports how long the last request of a turn has waited. */
  onWait(waitedMs: number): void
}

/** About 3 ms of work. A turn of a loop that keeps up has less. */
const REQUESTS_PER_TURN = 64

/**
 * Time for requests that waited, in each turn. A critical request needs four turns, because its
 * decision and its response come in later ones, so it waits four times as long. Other work of a
 * turn, mostly responses, takes about as long again.
 */
const TURN_MS = 0.5

/** The end of a turn with fewer requests is not observed. */
const REQUESTS_UNNOTICED = 32

interface Waiting<T> {
  readonly request: T
  readonly sinceMs: number
}

export class RequestTurns<T> {
  readonly #options: RequestTurnsOptions<T>
  /** Requests handled since the last observed end of a turn. */
  #count = 0
  #isScheduled = false
  #waiting: Waiting<T>[] = []
  #at = 0

  constructor(options: RequestTurnsOptions<T>) {
    this.#options = options
  }

  take(request: T): void {
    this.#count += 1
    if (this.#count >= REQUESTS_UNNOTICED && !this.#isScheduled) this.#schedule()
    const mustWait = this.#count > REQUESTS_PER_TURN || this.#waiting.length > 0
    if (mustWait && !this.#options.isUrgent(request)) {
      this.#waiting.push({ request, sinceMs: performance.now() })
    } else this.#options.handle(request)
  }

  #schedule(): void {
    this.#isScheduled = true
    setImmediate(this.#endTurn)
  }

  readonly #endTurn = () => {
    this.#isScheduled = false
    const first = this.#at
    const end = Math.min(this.#waiting.length, first + REQUESTS_PER_TURN)
    const endMs = performance.now() + TURN_MS
    let nowMs = 0
    let sinceMs: number | undefined
    while (this.#at < end && nowMs < endMs) {
      const waiting = this.#waiting[this.#at++] as Waiting<T>
      sinceMs = waiting.sinceMs
      this.#options.handle(waiting.request)
      nowMs = performance.now()
    }
    this.#count = this.#at - first
    if (this.#at === this.#waiting.length) {
      this.#waiting = []
      this.#at = 0
    } else {
      if (this.#at > REQUESTS_PER_TURN) this.#compact()
      this.#schedule()
    }
    if (sinceMs !== undefined) this.#options.onWait(nowMs - sinceMs)
  }

  /** Releases the requests that were handled. */
  #compact(): void {
    this.#waiting = this.#waiting.slice(this.#at)
    this.#at = 0
  }
}
