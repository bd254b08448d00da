/**
 * HPACK decoding, https://www.rfc-editor.org/rfc/rfc7541: the fields of header blocks, with the
 * dynamic table that both sides keep. Each connection has its own decoder.
 *
 * It limits the table but not the fields: a header block is always decoded to its end, so that the
 * table stays equal on both sides. The caller drops fields that exceed its limit.
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

/** The bytes that an entry counts in addition to its name and value. */
const ENTRY_OVERHEAD = 32

/** The default of SETTINGS_HEADER_TABLE_SIZE, which the server does not change. */
export const TABLE_BYTES_MAX = 4_096

/** A Huffman code has at least 5 bits, so a string has at most 8/5 of its encoded bytes. */
const HUFFMAN_GROWTH = 1.6

export class HpackDecoder {
  /** Increases with every change of the table, on which the meaning of equal bytes depends. */
  version = 0
  /** The newest first. */
  readonly #entries: Entry[] = []
  #tableBytes = 0
  #tableBytesMax = TABLE_BYTES_MAX
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0
  #scratch = Buffer.allocUnsafe(256)

  /** Calls `onField` for every field, in order. After an HpackError the connection must end. */
  decode(headerBlock: Buffer, onField: OnField): void {
    this.#bytes = headerBlock
    this.#at = 0
    let isFirst = true
    while (this.#at < headerBlock.length) {
      const byte = headerBlock[this.#at] as number
      if (byte >= 0x80) {
        const entry = this.#entry(this.#integer(7))
        onField(entry.name, entry.value)
      } else if (byte >= 0x40) {
        this.#add(this.#literal(6), onField)
      } else if (byte >= 0x20) {
        if (!isFirst) throw new HpackError('table size update after a field')
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
    const name = index === 0 ? this.#string() : this.#entry(index).name
    const value = this.#string()
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
    if (bytesMax > TABLE_BYTES_MAX) throw new HpackError(`table size of ${bytesMax} bytes`)
    this.version++
    this.#tableBytesMax = bytesMax
    this.#evict()
  }

  #evict(): void {
    while (this.#tableBytes > this.#tableBytesMax) {
      this.#tableBytes -= this.#entries.pop()?.size ?? 0
    }
  }

  /** https://www.rfc-editor.org/rfc/rfc7541#section-5.1, with at most 4 bytes after the prefix. */
  #integer(prefixBits: number): number {
    const prefixMax = 2 ** prefixBits - 1
    let value = (this.#byte() as number) & prefixMax
    if (value < prefixMax) return value
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.#byte()
      value += (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new HpackError('integer too large')
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++]
    if (byte === undefined) throw new HpackError('header block ends too early')
    return byte
  }

  /** A string literal; each byte becomes one character. */
  #string(): string {
    const isHuffman = ((this.#bytes[this.#at] ?? 0) & 0x80) !== 0
    const length = this.#integer(7)
    const start = this.#at
    this.#at += length
    if (this.#at > this.#bytes.length) throw new HpackError('string ends too early')
    if (!isHuffman) return this.#bytes.toString('latin1', start, this.#at)
    const decodedBytesMax = Math.ceil(length * HUFFMAN_GROWTH)
    if (this.#scratch.length < decodedBytesMax) this.#scratch = Buffer.allocUnsafe(decodedBytesMax)
    const end = huffmanDecode(this.#bytes, start, this.#at, this.#scratch)
    return this.#scratch.toString('latin1', 0, end)
  }
}
