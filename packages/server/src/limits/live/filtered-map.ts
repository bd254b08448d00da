/**
 * A map for many texts of which few are ever asked for. A filter of bits recognizes most other
 * texts by a few of their characters. The bits stay in the cache of a core, and a map of thousands
 * of texts does not, so that a look-up in the map alone costs several times as much.
 */

/** About one in eight of the texts that are not in the map passes the filter. */
const BITS_PER_TEXT = 8

const BITS_MIN = 1_024

/** 64 KB, for 50,000 texts. */
const BITS_MAX = 2 ** 19

/** Identifiers differ at their ends: numbers count there, and random ones are random there. */
const END_LENGTH = 6

export class FilteredMap<T> {
  readonly #map: ReadonlyMap<string, T>
  readonly #bits: Uint8Array
  readonly #mask: number

  constructor(map: ReadonlyMap<string, T>) {
    const wanted = 2 ** Math.ceil(Math.log2(map.size * BITS_PER_TEXT))
    const count = Math.min(Math.max(wanted, BITS_MIN), BITS_MAX)
    this.#map = map
    this.#bits = new Uint8Array(count / 8)
    this.#mask = count - 1
    for (const text of map.keys()) {
      const at = hashOf(text) & this.#mask
      this.#bits[at >>> 3] = (this.#bits[at >>> 3] ?? 0) | (1 << (at & 7))
    }
  }

  get(text: string): T | undefined {
    const at = hashOf(text) & this.#mask
    const isKnown = ((this.#bits[at >>> 3] ?? 0) & (1 << (at & 7))) !== 0
    return isKnown ? this.#map.get(text) : undefined
  }
}

/** FNV-1a of the length, the first and the last characters. */
function hashOf(text: string): number {
  const { length } = text
  let hash = 0x811c9dc5 ^ length
  if (length === 0) return hash
  hash = Math.imul(hash ^ text.charCodeAt(0), 0x01000193)
  for (let at = Math.max(0, length - END_LENGTH); at < length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  return hash ^ (hash >>> 15)
}
