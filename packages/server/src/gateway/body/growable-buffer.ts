const noBytes = Buffer.alloc(0)

/** Collects chunks in one buffer: one Buffer per byte would cost a hundred times the memory. */
export class GrowableBuffer {
  length = 0
  #bytes: Buffer = noBytes

  add(chunk: Buffer): void {
    const length = this.length + chunk.length
    // Most bodies are one chunk, which is not copied.
    if (this.length === 0) this.#bytes = chunk
    else {
      if (length > this.#bytes.length) this.#grow(length * 2)
      chunk.copy(this.#bytes, this.length)
    }
    this.length = length
  }

  /** All bytes; valid until the next `add` or `take`. */
  get view(): Buffer {
    const isFull = this.#bytes.length === this.length
    return isFull ? this.#bytes : this.#bytes.subarray(0, this.length)
  }

  take(): Buffer {
    const bytes = this.view
    this.#bytes = noBytes
    this.length = 0
    return bytes
  }

  #grow(length: number): void {
    const larger = Buffer.allocUnsafeSlow(length)
    this.#bytes.copy(larger, 0, 0, this.length)
    this.#bytes = larger
  }
}
