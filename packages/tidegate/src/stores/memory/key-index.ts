/**
 * From keys to slots. A Map that grows copies itself, which with a million keys delays one call by
 * 100 ms. So the first keys are in one Map, the rest in many that stay small: then
 * no call copies more than some ten thousand entries, about a millisecond.
 */

/** Enough for most applications, so that nearly every look-up ends in the first Map. */
const FIRST_MAX = 16_384

/** A power of two. With a million keys, a part has about as many as the first Map. */
const PARTS = 64

export class KeyIndex {
  readonly #first = new Map<string, number>()
  #parts: ReadonlyArray<Map<string, number>> | undefined

  get(key: string): number | undefined {
    const slot = this.#first.get(key)
    return slot !== undefined || this.#parts === undefined
      ? slot
      : partOf(this.#parts, key).get(key)
  }

  /** Adds a key that is not there yet. */
  add(key: string, slot: number): void {
    if (this.#first.size < FIRST_MAX) {
      this.#first.set(key, slot)
      return
    }
    this.#parts ??= Array.from({ length: PARTS }, () => new Map())
    partOf(this.#parts, key).set(key, slot)
  }

  delete(key: string): void {
    if (this.#first.delete(key) || this.#parts === undefined) return
    partOf(this.#parts, key).delete(key)
  }
}

/**
 * A few characters choose the part: cheap, and keys of one kind differ in their second half. Keys
 * that an attacker makes to share a part only make that part as slow to grow as a single Map would
 * be.
 */
function partOf(parts: ReadonlyArray<Map<string, number>>, key: string): Map<string, number> {
  const { length } = key
  const mix =
    key.charCodeAt(length - 1) +
    key.charCodeAt(length >> 1) * 7 +
    key.charCodeAt((length * 3) >> 2) * 31
  return parts[mix & (PARTS - 1)] as Map<string, number>
}
