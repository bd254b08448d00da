/** Splits a stream into lines and parses each as JSON, within a bound on the length of a line. */

export class JsonLines {
  readonly #bytesMax: number
  readonly #onValue: (value: unknown) => void
  #parts: Buffer[] = []
  #bytes = 0

  constructor(bytesMax: number, onValue: (value: unknown) => void) {
    this.#bytesMax = bytesMax
    this.#onValue = onValue
  }

  /** Throws if a line is too long or is not JSON. */
  add(chunk: Buffer): void {
    let rest = chunk
    for (let at = rest.indexOf(0x0a); at !== -1; at = rest.indexOf(0x0a)) {
      this.#keep(rest.subarray(0, at))
      const line = Buffer.concat(this.#parts).toString('utf8')
      this.#parts = []
      this.#bytes = 0
      if (line.trim() !== '') this.#onValue(JSON.parse(line))
      rest = rest.subarray(at + 1)
    }
    if (rest.length > 0) this.#keep(rest)
  }

  #keep(part: Buffer): void {
    this.#bytes += part.length
    if (this.#bytes > this.#bytesMax) throw new Error(`a line of more than ${this.#bytesMax} bytes`)
    this.#parts.push(part)
  }
}
