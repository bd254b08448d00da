/**
 * Handles replies that arrive together one by one: the callers of the first continue before the
 * second is handled. Their next charges are on their way then, and the server works on them while
 * this process handles the other replies. Otherwise each of the two would wait for the other.
 */

import { afterContinuations } from '../../../runtime.ts'

export class ReplyTurns {
  #isTaken = false
  readonly #waiting: (() => void)[] = []

  /** True while the callers of a reply have not continued. */
  get isTaken(): boolean {
    return this.#isTaken
  }

  /** Calls `handle` at once, or when the callers of all replies before it have continued. */
  take(handle: () => void): void {
    if (this.#isTaken) {
      this.#waiting.push(handle)
      return
    }
    this.#isTaken = afterContinuations(this.#next)
    handle()
  }

  readonly #next = () => {
    const handle = this.#waiting.shift()
    this.#isTaken = handle !== undefined && afterContinuations(this.#next)
    handle?.()
  }
}
