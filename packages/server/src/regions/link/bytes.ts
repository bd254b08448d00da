/**
 * Writes and reads the values of messages between regions. Whole numbers have a variable length, so
 * that small ones take one byte. A reader refuses what does not fit, and never reads past its end.
 */

/** A message is not what its type says. */
export class MessageError extends Error {}

const START_BYTES = 256

/** Bytes of the largest whole number, 2^53 - 1, at 7 bits each. */
const WHOLE_BYTES_MAX = 8

export class ByteWriter {
  #buffer = Buffer.allocUnsafe(START_BYTES)
  #length = 0

  byte(value: number): this {
    this.#reserve(1)
    this.#buffer[this.#length++] = value
    return this
  }

  /** A whole number from 0 to 2^53 - 1. */
  whole(value: number): this {
    this.#reserve(WHOLE_BYTES_MAX)
    let rest = value
    while (rest >= 128) {
      this.#buffer[this.#length++] = (rest % 128) + 128
      rest = Math.floor(rest / 128)
    }
    this.#buffer[this.#length++] = rest
    return this
  }

  /** A number that may have a fraction or a sign, or be infinite. */
  float(value: number): this {
    this.#reserve(8)
    this.#length = this.#buffer.writeDoubleBE(value, this.#length)
    return this
  }

  bytes(value: Uint8Array): this {
    this.#reserve(value.length)
    this.#buffer.set(value, this.#length)
    this.#length += value.length
    return this
  }

  /** Its length and its UTF-8. */
  text(value: string): this {
    const bytes = Buffer.from(value, 'utf8')
    return this.whole(bytes.length).bytes(bytes)
  }

  finish(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  get length(): number {
    return this.#length
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(2 * this.#buffer.length, this.#length + count))
    larger.set(this.#buffer.subarray(0, this.#length))
    this.#buffer = larger
  }
}

export class ByteReader {
  readonly #buffer: Buffer
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#buffer.length
  }

  get offset(): number {
    return this.#at
  }

  byte(): number {
    const value = this.#buffer[this.#at++]
    if (value === undefined) throw new MessageError('the message ends too early')
    return value
  }

  whole(): number {
    let value = 0
    let factor = 1
    for (let count = 0; count < WHOLE_BYTES_MAX; count++) {
      const byte = this.byte()
      value += (byte % 128) * factor
      if (byte < 128) {
        if (Number.isSafeInteger(value)) return value
        break
      }
      factor *= 128
    }
    throw new MessageError('a number is larger than 2^53 - 1')
  }

  /** A whole number of at most `max`. */
  count(max: number, label: string): number {
    const value = this.whole()
    if (value <= max) return value
    throw new MessageError(`${label}: ${value} is more than ${max}`)
  }

  float(): number {
    const bytes = this.bytes(8)
    return bytes.readDoubleBE(0)
  }

  bytes(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#buffer.length) throw new MessageError('the message ends too early')
    const bytes = this.#buffer.subarray(this.#at, end)
    this.#at = end
    return bytes
  }

  text(bytesMax: number, label: string): string {
    return this.bytes(this.count(bytesMax, label)).toString('utf8')
  }

  /** All bytes from here on. */
  rest(): Buffer {
    return this.bytes(this.#buffer.length - this.#at)
  }

  /** The bytes between an earlier offset and here. */
  since(offset: number): Buffer {
    return this.#buffer.subarray(offset, this.#at)
  }
}
