/** Tells the first time of something from those that follow within minutes. */

const AGE_MS_MAX = 10 * 60_000

/** Beyond it, the one that came first is forgotten, and is new again. */
const NAMES_MAX = 1_000

export class FirstTimes {
  readonly #seenMs = new Map<string, number>()

  isNew(name: string, nowMs: number): boolean {
    const seenMs = this.#seenMs.get(name)
    if (seenMs !== undefined && nowMs - seenMs < AGE_MS_MAX) return false
    this.#seenMs.delete(name)
    this.#seenMs.set(name, nowMs)
    const [first] = this.#seenMs.keys()
    if (this.#seenMs.size > NAMES_MAX && first !== undefined) this.#seenMs.delete(first)
    return true
  }
}
