/**
 * The keys with the highest counts of a stream, in constant memory (Metwally, Agrawal, El Abbadi:
 * Space-Saving). A new key takes the place of the one with the lowest count, and inherits that
 * count as its error.
 *
 * A count is never too low, and too high by at most its error. A key with more than one in `size`
 * of all counts is always in the list.
 *
 * The entries are a heap with the lowest count first, so that an addition takes at most a few
 * comparisons.
 */

export interface CountedKey {
  readonly key: string
  readonly count: number
  /** The true count is between `count - error` and `count`. */
  readonly error: number
}

interface Entry {
  key: string
  count: number
  error: number
  /** Its place in the heap. */
  at: number
}

export class SpaceSaving {
  readonly #size: number
  readonly #byKey = new Map<string, Entry>()
  readonly #heap: Entry[] = []
  #total = 0

  constructor(size: number) {
    this.#size = size
  }

  /** The sum of all counts. */
  get total(): number {
    return this.#total
  }

  /** The most that a key can have that is not in the list. */
  get missedMax(): number {
    return this.#heap.length < this.#size ? 0 : (this.#heap[0]?.count ?? 0)
  }

  add(key: string, times = 1): void {
    this.#total += times
    const known = this.#byKey.get(key)
    if (known !== undefined) {
      known.count += times
      this.#sink(known)
      return
    }
    if (this.#heap.length < this.#size) {
      const entry = { key, count: times, error: 0, at: this.#heap.length }
      this.#heap.push(entry)
      this.#byKey.set(key, entry)
      this.#rise(entry)
      return
    }
    const lowest = this.#heap[0] as Entry
    this.#byKey.delete(lowest.key)
    this.#byKey.set(key, lowest)
    lowest.key = key
    lowest.error = lowest.count
    lowest.count += times
    this.#sink(lowest)
  }

  /** In descending order of their counts. */
  entries(): readonly CountedKey[] {
    const entries = this.#heap.map(({ key, count, error }) => ({ key, count, error }))
    return entries.sort((one, other) => other.count - one.count || one.error - other.error)
  }

  #rise(entry: Entry): void {
    const heap = this.#heap
    while (entry.at > 0) {
      const above = heap[(entry.at - 1) >> 1] as Entry
      if (above.count <= entry.count) return
      this.#swap(above, entry)
    }
  }

  #sink(entry: Entry): void {
    const heap = this.#heap
    for (;;) {
      const left = heap[2 * entry.at + 1]
      const right = heap[2 * entry.at + 2]
      if (left === undefined) return
      const lower = right !== undefined && right.count < left.count ? right : left
      if (lower.count >= entry.count) return
      this.#swap(entry, lower)
    }
  }

  #swap(one: Entry, other: Entry): void {
    const { at } = one
    one.at = other.at
    other.at = at
    this.#heap[one.at] = one
    this.#heap[other.at] = other
  }
}
