/**
 * The known API keys as four arrays instead of objects. A thread builds them and transfers them in
 * constant time, whatever their number: objects would be copied one by one on the thread that
 * serves requests, and visited by its garbage collector from then on.
 *
 * A key is found by its HMAC in a hash table with open addressing. Neither the HMACs in the file
 * nor those of requests can be chosen without the secret, so the first bytes of one are its hash.
 */

/** Plain data: it is sent from one thread to another. */
export interface KeyTable {
  /** Differs if the file differs. */
  readonly digest: string
  readonly count: number
  /** 32 bytes for each key, in the order of the file. */
  readonly hmacs: Uint8Array<ArrayBuffer>
  /** The rows of keys plus 1 at the place of their hash; 0 is a free place. A power of two long. */
  readonly places: Uint32Array<ArrayBuffer>
  /** Id, organisation and tier of all keys in a row, as UTF-8. */
  readonly texts: Uint8Array<ArrayBuffer>
  /** Three for each key: where its id, organisation and tier end in `texts`. Empty is absent. */
  readonly ends: Uint32Array<ArrayBuffer>
}

export interface KnownKey {
  readonly id: string
  readonly organisation?: string
  readonly tier?: string
}

export const HMAC_BYTES = 32

const TEXTS_PER_KEY = 3

/** Enough for a small file without growing. */
const FIRST_ROWS = 64
const FIRST_TEXT_BYTES = 4_096

/** UTF-8 takes at most three bytes for a code unit of UTF-16. */
const BYTES_PER_UNIT_MAX = 3

export function findKey(table: KeyTable, hmac: Uint8Array): KnownKey | undefined {
  const row = rowOf(table, hmac)
  if (row === undefined) return undefined
  const { texts, ends } = table
  const first = row * TEXTS_PER_KEY
  const startAt = ends[first - 1] ?? 0
  const [idEnd = 0, organisationEnd = 0, tierEnd = 0] = ends.subarray(first, first + TEXTS_PER_KEY)
  const text = Buffer.from(texts.buffer, texts.byteOffset, texts.length)
  const organisation = text.toString('utf8', idEnd, organisationEnd)
  const tier = text.toString('utf8', organisationEnd, tierEnd)
  return {
    id: text.toString('utf8', startAt, idEnd),
    ...(organisation !== '' && { organisation }),
    ...(tier !== '' && { tier }),
  }
}

/** The buffers of a table, to be transferred and not copied. */
export function buffersOf({ hmacs, places, texts, ends }: KeyTable): ArrayBuffer[] {
  return [hmacs.buffer, places.buffer, texts.buffer, ends.buffer]
}

/** Collects keys in the order of a file. */
export class KeyTableBuilder {
  #count = 0
  #textBytes = 0
  #hmacs = new Uint8Array(FIRST_ROWS * HMAC_BYTES)
  #texts = Buffer.from(new ArrayBuffer(FIRST_TEXT_BYTES))
  #ends = new Uint32Array(FIRST_ROWS * TEXTS_PER_KEY)
  #places = new Uint32Array(FIRST_ROWS * 2)

  /** Returns the row of the key that has the same HMAC already; undefined if there is none. */
  add(hmac: Uint8Array, { id, organisation = '', tier = '' }: KnownKey): number | undefined {
    const known = rowOf({ hmacs: this.#hmacs, places: this.#places }, hmac)
    if (known !== undefined) return known
    this.#makeRoom((id.length + organisation.length + tier.length) * BYTES_PER_UNIT_MAX)
    const row = this.#count
    this.#hmacs.set(hmac, row * HMAC_BYTES)
    for (const [at, text] of [id, organisation, tier].entries()) {
      this.#textBytes += this.#texts.write(text, this.#textBytes)
      this.#ends[row * TEXTS_PER_KEY + at] = this.#textBytes
    }
    place(this.#places, this.#hmacs, row)
    this.#count += 1
    return undefined
  }

  build(digest: string): KeyTable {
    const texts = new Uint8Array(this.#textBytes)
    texts.set(this.#texts.subarray(0, this.#textBytes))
    return {
      digest,
      count: this.#count,
      hmacs: this.#hmacs.slice(0, this.#count * HMAC_BYTES),
      places: this.#places,
      texts,
      ends: this.#ends.slice(0, this.#count * TEXTS_PER_KEY),
    }
  }

  #makeRoom(textBytes: number): void {
    if (this.#textBytes + textBytes > this.#texts.length) {
      const larger = Buffer.from(new ArrayBuffer(this.#texts.length * 2 + textBytes))
      this.#texts.copy(larger)
      this.#texts = larger
    }
    if (this.#count * HMAC_BYTES < this.#hmacs.length) return
    const rows = this.#count * 2
    const [hmacs, ends] = [this.#hmacs, this.#ends]
    this.#hmacs = new Uint8Array(rows * HMAC_BYTES)
    this.#hmacs.set(hmacs)
    this.#ends = new Uint32Array(rows * TEXTS_PER_KEY)
    this.#ends.set(ends)
    // At most half of the places are taken, so that the next free one is near.
    this.#places = new Uint32Array(rows * 2)
    for (let row = 0; row < this.#count; row++) place(this.#places, this.#hmacs, row)
  }
}

function place(places: Uint32Array, hmacs: Uint8Array, row: number): void {
  let at = hashOf(hmacs, row * HMAC_BYTES) % places.length
  while (places[at] !== 0) at = (at + 1) % places.length
  places[at] = row + 1
}

function rowOf(
  { hmacs, places }: Pick<KeyTable, 'hmacs' | 'places'>,
  hmac: Uint8Array,
): number | undefined {
  let at = hashOf(hmac, 0) % places.length
  for (;;) {
    const row = (places[at] ?? 0) - 1
    if (row < 0) return undefined
    if (isAt(hmacs, row * HMAC_BYTES, hmac)) return row
    at = (at + 1) % places.length
  }
}

function hashOf(bytes: Uint8Array, at: number): number {
  const [a = 0, b = 0, c = 0, d = 0] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
  return (a | (b << 8) | (c << 16) | (d << 24)) >>> 0
}

function isAt(hmacs: Uint8Array, start: number, hmac: Uint8Array): boolean {
  for (let at = 0; at < HMAC_BYTES; at++) {
    if (hmacs[start + at] !== hmac[at]) return false
  }
  return true
}
