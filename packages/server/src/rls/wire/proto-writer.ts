/** Writes protobuf into one buffer, which is used again for the next message. */

export class ProtoWriter {
  bytes = Buffer.allocUnsafeSlow(1_024)
  length = 0

  clear(): void {
    this.length = 0
  }

  /** A field that is 0 is left out, as proto3 has it. */
  number(field: number, value: number): void {
    if (value !== 0) this.presentNumber(field, value)
  }

  presentNumber(field: number, value: number): void {
    this.#room(12)
    this.#varint(field * 8)
    this.#varint(value)
  }

  text(field: number, value: string): void {
    if (value === '') return
    this.#room(2 * 10 + value.length * 3)
    this.#varint(field * 8 + 2)
    const size = Buffer.byteLength(value)
    this.#varint(size)
    this.bytes.write(value, this.length, 'utf8')
    this.length += size
  }

  /** The bytes of a text, without a field. */
  raw(value: string): void {
    this.#room(value.length * 3)
    this.length += this.bytes.write(value, this.length, 'utf8')
  }

  double(field: number, value: number): void {
    this.#room(9)
    this.#varint(field * 8 + 1)
    this.length = this.bytes.writeDoubleLE(value, this.length)
  }

  /** Begins a message within; returns the argument for `end`. */
  begin(field: number): number {
    this.#room(2)
    this.#varint(field * 8 + 2)
    return ++this.length
  }

  /** Nearly all messages are shorter than 128 bytes; a longer one is moved, as its length is. */
  end(start: number): void {
    const size = this.length - start
    if (size < 128) {
      this.bytes[start - 1] = size
      return
    }
    const more = size < 16_384 ? 1 : size < 2_097_152 ? 2 : 3
    this.#room(more)
    this.bytes.copyWithin(start + more, start, this.length)
    this.length = start - 1
    this.#varint(size)
    this.length += size
  }

  #varint(value: number): void {
    let rest = value
    while (rest >= 128) {
      this.bytes[this.length++] = (rest % 128) | 0x80
      rest = Math.floor(rest / 128)
    }
    this.bytes[this.length++] = rest
  }

  #room(count: number): void {
    if (this.length + count <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(2 * (this.length + count))
    this.bytes.copy(larger, 0, 0, this.length)
    this.bytes = larger
  }
}
