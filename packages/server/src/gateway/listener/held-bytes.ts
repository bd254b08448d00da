/** Pieces in one buffer: as objects of their own, single bytes would take a hundred times that. */
export class HeldBytes {
  length = 0
  #bytes: Buffer = Buffer.alloc(0)

  add(chunk: Buffer): void {
    const length = this.length + chunk.length
    // Most bodies come in one piece, which is not copied.
    if (this.length === 0) this.#bytes = chunk
    else {
      if (length > this.#bytes.length) this.#grow(length * 2)
      chunk.copy(this.#bytes, this.length)
    }
    this.length = length
  }

  /** All of them, as long as nothing is added or taken. */
  get view(): Buffer {
    return this.#bytes.subarray(0, this.length)
  }

  take(): Buffer {
    const bytes = this.#bytes.subarray(0, this.length)
    this.#bytes = Buffer.alloc(0)
    this.length = 0
    return bytes
  }

  #grow(length: number): void {
    const larger = Buffer.allocUnsafeSlow(length)
    this.#bytes.copy(larger, 0, 0, this.length)
    this.#bytes = larger
  }
}
