/** Reads protobuf, https://protobuf.dev/programming-guides/encoding/, and never past its end. */

import { isUtf8 } from 'node:buffer'
import { InvalidRequest } from './rate-limit-messages.ts'

export const wireTypes = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const

export class ProtoReader {
  readonly #bytes: Buffer
  at: number
  end: number

  constructor(bytes: Buffer, start: number, end: number) {
    this.#bytes = bytes
    this.at = start
    this.end = end
  }

  get hasMore(): boolean {
    return this.at < this.end
  }

  /** A whole number. It is not exact above 2^53, which no field needs. */
  varint(): number {
    let value = 0
    let factor = 1
    for (let count = 0; count < 10; count++) {
      if (this.at >= this.end) throw truncated()
      const byte = this.#bytes[this.at++] as number
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
      factor *= 128
    }
    throw new InvalidRequest('a number of more than ten bytes')
  }

  text(): string {
    const end = this.#endOf(this.varint())
    const start = this.at
    this.at = end
    const text = this.#bytes.toString('utf8', start, end)
    // Different bytes that are no UTF-8 would all be the same text.
    if (text.includes('\uFFFD') && !isUtf8(this.#bytes.subarray(start, end))) {
      throw new InvalidRequest('a text that is not UTF-8')
    }
    return text
  }

  /** Runs `read` on the message that follows, up to its end and no further. */
  nested<T>(read: (reader: ProtoReader) => T): T {
    const outer = this.end
    this.end = this.#endOf(this.varint())
    const value = read(this)
    this.at = this.end
    this.end = outer
    return value
  }

  skip(wireType: number): void {
    if (wireType === wireTypes.varint) this.varint()
    else if (wireType === wireTypes.bytes) this.at = this.#endOf(this.varint())
    else if (wireType === wireTypes.fixed64) this.at = this.#endOf(8)
    else if (wireType === wireTypes.fixed32) this.at = this.#endOf(4)
    else throw new InvalidRequest(`the wire type ${wireType}`)
  }

  #endOf(length: number): number {
    const end = this.at + length
    if (end > this.end) throw truncated()
    return end
  }
}

function truncated(): InvalidRequest {
  return new InvalidRequest('a message that ends too early')
}
