/**
 * Finds the keys with the most calls within the last second, in constant memory for any number of
 * keys (Misra and Gries): if there is no room for a new key, every count is lowered by its calls. A
 * count is never too high, and too low by at most the calls of a second divided by the room.
 */

export interface HeavyHitter {
  readonly key: string
  readonly perSecond: number
}

/**
 * Keys in the sketch, at most half a megabyte. A key with more than one in 4,096 calls is never
 * missed.
 */
const KEYS_MAX = 4_096

const SECOND_MS = 1_000

export class HeavyHitters {
  #current = new Map<string, number>()
  #previous = new Map<string, number>()
  #second = 0

  /** Counts calls of a key, and returns those of the last second. */
  add(key: string, calls: number, nowMs: number): number {
    this.#turn(nowMs)
    const count = (this.#current.get(key) ?? 0) + calls
    if (count > calls || this.#current.size < KEYS_MAX) this.#current.set(key, count)
    else this.#compete(key, calls)
    const before = this.#previous.size === 0 ? undefined : this.#previous.get(key)
    return before === undefined ? count : count + before * shareOfPrevious(nowMs)
  }

  /** The keys with the most calls, in descending order. */
  top(count: number, nowMs: number): HeavyHitter[] {
    this.#turn(nowMs)
    const keys = new Set([...this.#current.keys(), ...this.#previous.keys()])
    const rates = [...keys].map((key) => ({ key, perSecond: Math.round(this.#rate(key, nowMs)) }))
    return rates.sort((one, other) => other.perSecond - one.perSecond).slice(0, count)
  }

  #rate(key: string, nowMs: number): number {
    const before = this.#previous.get(key) ?? 0
    return (this.#current.get(key) ?? 0) + before * shareOfPrevious(nowMs)
  }

  #turn(nowMs: number): void {
    const second = Math.floor(nowMs / SECOND_MS)
    if (second === this.#second) return
    this.#previous = second === this.#second + 1 ? this.#current : new Map()
    this.#current = new Map()
    this.#second = second
  }

  /** Lowers all counts until there is room, or the new count is 0. */
  #compete(key: string, calls: number): void {
    const by = calls === 1 ? 1 : Math.min(calls, ...this.#current.values())
    // A new map: to delete thousands of keys one by one takes longer.
    const left = new Map<string, number>()
    for (const [other, count] of this.#current) if (count > by) left.set(other, count - by)
    if (calls > by) left.set(key, calls - by)
    this.#current = left
  }
}

/** The previous second counts as much as still lies within the last 1,000 ms. */
function shareOfPrevious(nowMs: number): number {
  return 1 - (nowMs % SECOND_MS) / SECOND_MS
}
