/**
 * Delays between attempts: full jitter, so that a fleet that lost etcd does not return at once.
 *
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */

import { setTimeout as sleep } from 'node:timers/promises'

/** Short enough that a restarted member is found within a second. */
const FIRST_MS = 100

/** Nodes catch up within this time after etcd is back. The check every 5 s is not slower. */
const LONGEST_MS = 4_000

export class BackOff {
  #failures = 0

  reset(): void {
    this.#failures = 0
  }

  /** Waits at random between 0 and a bound that doubles. Returns early if `signal` aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    const bound = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#failures)
    this.#failures += 1
    await sleep(Math.random() * bound, undefined, { signal }).catch(() => undefined)
  }
}
