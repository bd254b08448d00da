/** Finds the heads of requests in the bytes that arrive, however they are divided. */

import { GrowableBuffer } from '../../body/growable-buffer.ts'
import { hasForbiddenSoFar } from '../../http1/fields.ts'
import { requestErrors } from './read-request-head.ts'

const EMPTY_LINE = Buffer.from('\r\n\r\n')
const CR = 0x0d
const LF = 0x0a

/** Some clients send a line end behind a body that is not part of it. */
const LINE_END_BYTES = 2

export class HeadReader {
  readonly #bytesMax: number
  #begun: GrowableBuffer | undefined
  #hasSkipped = false
  /** The head that the last read has completed, without its empty line. */
  text: string | undefined

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** True if a part of a head has arrived. */
  get hasBegun(): boolean {
    return this.#begun !== undefined
  }

  /** Returns where the head ended, or the length of the bytes. Throws if it cannot be a head. */
  read(bytes: Buffer, start: number): number {
    this.text = undefined
    if (this.#begun !== undefined) {
      if (this.#endsSkipped(this.#begun, bytes, start)) return start + 1
      return this.#readOn(this.#begun, bytes, start)
    }
    const at = this.#skipLineEnd(bytes, start)
    if (at === bytes.length) return at
    const end = bytes.indexOf(EMPTY_LINE, at)
    if (end === -1) {
      this.#begun = new GrowableBuffer()
      return this.#readOn(this.#begun, bytes, at)
    }
    this.#useText(bytes, at, end)
    return end + EMPTY_LINE.length
  }

  /** Frees its memory: an idle connection keeps no bytes. */
  forget(): void {
    this.text = undefined
    this.#begun = undefined
  }

  /** Skips at most one before each request: https://www.rfc-editor.org/rfc/rfc9112#section-2.2 */
  #skipLineEnd(bytes: Buffer, at: number): number {
    if (this.#hasSkipped || bytes[at] !== CR || bytes[at + 1] !== LF) return at
    this.#hasSkipped = true
    return at + LINE_END_BYTES
  }

  /** Skips the second byte of such a line end, if it arrives alone. */
  #endsSkipped(begun: GrowableBuffer, bytes: Buffer, at: number): boolean {
    const isHalf = begun.length === 1 && begun.view[0] === CR && bytes[at] === LF
    if (!isHalf || this.#hasSkipped) return false
    this.#hasSkipped = true
    this.#begun = undefined
    return true
  }

  #readOn(begun: GrowableBuffer, bytes: Buffer, at: number): number {
    const before = begun.length
    // No head is longer, so no more bytes need to be searched.
    begun.add(bytes.subarray(at, at + this.#bytesMax + EMPTY_LINE.length))
    const { view } = begun
    const end = view.indexOf(EMPTY_LINE, Math.max(0, before - EMPTY_LINE.length + 1))
    if (end !== -1) {
      this.#begun = undefined
      this.#useText(view, 0, end)
      return at + end + EMPTY_LINE.length - before
    }
    if (begun.length > this.#bytesMax) throw tooLarge()
    // Bytes that can never become a head are refused at once.
    const start = before > 0 && view[before - 1] === CR ? before - 1 : before
    if (hasForbiddenSoFar(view.toString('latin1', start))) {
      throw requestErrors.invalid('the head has control characters')
    }
    return bytes.length
  }

  #useText(bytes: Buffer, start: number, end: number): void {
    if (end - start > this.#bytesMax) throw tooLarge()
    this.#hasSkipped = false
    this.text = bytes.toString('latin1', start, end)
  }
}

function tooLarge(): Error {
  return requestErrors.tooLarge('the header fields of the request are too large')
}
