/**
 * A map from texts to values that finds its oldest entry in constant time.
 *
 * A `Map` keeps the place of a deleted entry until it makes a new table, and an iterator passes all
 * such places. If the oldest entry is deleted each time, an iterator that begins at the start takes
 * 2.7 µs with 16,384 entries and 5 µs with 100,000. This map keeps its iterator, which takes 0.1 to
 * 0.4 µs.
 */

export class AgeMap<V> {
  readonly #values = new Map<string, V>()
  readonly #keys = this.#values.keys()
  /** The last key of the iterator; undefined if its entry was deleted. */
  #oldest: string | undefined

  get size(): number {
    return this.#values.size
  }

  get(key: string): V | undefined {
    return this.#values.get(key)
  }

  has(key: string): boolean {
    return this.#values.has(key)
  }

  /** Adds an entry, which is the youngest one, also if the key had one before. */
  set(key: string, value: V): void {
    this.delete(key)
    this.#values.set(key, value)
  }

  delete(key: string): boolean {
    if (key === this.#oldest) this.#oldest = undefined
    return this.#values.delete(key)
  }

  clear(): void {
    this.#oldest = undefined
    this.#values.clear()
  }

  values(): Iterable<V> {
    return this.#values.values()
  }

  /** The key of the oldest entry; undefined if there is none. */
  oldest(): string | undefined {
    if (this.#oldest === undefined && this.#values.size > 0) {
      // Entries follow, so the iterator has not ended: each one that it passed was deleted.
      this.#oldest = this.#keys.next().value
    }
    return this.#oldest
  }
}
