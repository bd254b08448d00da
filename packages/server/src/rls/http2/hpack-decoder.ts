/**
 * HPACK decoding, https://www.rfc-editor.org/rfc/rfc7541: what a client wrote into a header block,
 * with the dynamic table that both sides keep. One for each connection.
 *
 * A block that decodes to more than is allowed is still read to its end, because the table has to
 * stay the same on both sides, but nothing of it is kept or copied.
 */

import { HpackError } from './hpack-error.ts'
import { staticTable } from './hpack-static-table.ts'
import { huffmanDecode } from './huffman.ts'

export type OnField = (name: string, value: string) => void

interface Entry {
  readonly name: string
  readonly value: string
  readonly size: number
}

/** What an entry counts beside its texts. */
const ENTRY_OVERHEAD = 32

/** The default of SETTINGS_HEADER_TABLE_SIZE, which is never changed here. */
export const TABLE_BYTES_MAX = 4_096

/** A Huffman code has at least five bits, so that a text is at most 8/5 of its code. */
const HUFFMAN_GROWTH = 1.6

export class HpackDecoder {
  /** Rises with every change of the table: while it stays, the same bytes mean the same fields. */
  version = 0
  /** The newest first. */
  readonly #entries: Entry[] = []
  #tableBytes = 0
  #tableBytesMax = TABLE_BYTES_MAX
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0
  #scratch = Buffer.allocUnsafe(256)

  /** Calls back for every field in order. Throws HpackError; the connection cannot go on then. */
  decode(block: Buffer, onField: OnField): void {
    this.#bytes = block
    this.#at = 0
    let isFirst = true
    while (this.#at < block.length) {
      const byte = block[this.#at] as number
      if (byte >= 0x80) {
        const entry = this.#entry(this.#integer(7))
        onField(entry.name, entry.value)
      } else if (byte >= 0x40) {
        this.#add(this.#literal(6), onField)
      } else if (byte >= 0x20) {
        if (!isFirst) throw new HpackError('a change of the table size after a field')
        this.#resize(this.#integer(5))
        continue
      } else {
        const { name, value } = this.#literal(4)
        onField(name, value)
      }
      isFirst = false
    }
  }

  #literal(prefixBits: number): Entry {
    const index = this.#integer(prefixBits)
    const name = index === 0 ? this.#text() : this.#entry(index).name
    const value = this.#text()
    return { name, value, size: name.length + value.length + ENTRY_OVERHEAD }
  }

  #entry(index: number): Entry {
    if (index === 0) throw new HpackError('index 0')
    const fixed = staticTable[index - 1]
    if (fixed !== undefined) return { name: fixed[0], value: fixed[1], size: 0 }
    const entry = this.#entries[index - staticTable.length - 1]
    if (entry === undefined) throw new HpackError(`index ${index} is not in the table`)
    return entry
  }

  #add(entry: Entry, onField: OnField): void {
    this.version++
    this.#entries.unshift(entry)
    this.#tableBytes += entry.size
    this.#evict()
    onField(entry.name, entry.value)
  }

  #resize(bytesMax: number): void {
    if (bytesMax > TABLE_BYTES_MAX) throw new HpackError(`a table of ${bytesMax} bytes`)
    this.version++
    this.#tableBytesMax = bytesMax
    this.#evict()
  }

  #evict(): void {
    while (this.#tableBytes > this.#tableBytesMax) {
      this.#tableBytes -= this.#entries.pop()?.size ?? 0
    }
  }

  /** https://www.rfc-editor.org/rfc/rfc7541#section-5.1, of which four more bytes are enough. */
  #integer(prefixBits: number): number {
    const most = 2 ** prefixBits - 1
    let value = (this.#byte() as number) & most
    if (value < most) return value
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.#byte()
      value += (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new HpackError('an integer that is too large')
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++]
    if (byte === undefined) throw new HpackError('a block that ends too early')
    return byte
  }

  /** Texts are bytes, and stay bytes: one character each. */
  #text(): string {
    const isHuffman = ((this.#bytes[this.#at] ?? 0) & 0x80) !== 0
    const length = this.#integer(7)
    const start = this.#at
    this.#at += length
    if (this.#at > this.#bytes.length) throw new HpackError('a text that ends too early')
    if (!isHuffman) return this.#bytes.toString('latin1', start, this.#at)
    const longest = Math.ceil(length * HUFFMAN_GROWTH)
    if (this.#scratch.length < longest) this.#scratch = Buffer.allocUnsafe(longest)
    const end = huffmanDecode(this.#bytes, start, this.#at, this.#scratch)
    return this.#scratch.toString('latin1', 0, end)
  }
}
