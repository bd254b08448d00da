/** Finds the heads of requests in what arrives, in whatever pieces. */

import { hasForbiddenSoFar } from '../../http1/fields.ts'
import { HeldBytes } from '../held-bytes.ts'
import { requestErrors } from './read-head.ts'

const EMPTY_LINE = Buffer.from('\r\n\r\n')
const CR = 0x0d
const LF = 0x0a

/** Some clients end a body with a line end that is not part of it. */
const LINE_END_BYTES = 2

export class HeadReader {
  readonly #bytesMax: number
  #begun: HeldBytes | undefined
  #hasSkipped = false
  /** Of the head that the last read has completed, without the empty line. */
  text: string | undefined

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Whether a part of a head is here. */
  get hasBegun(): boolean {
    return this.#begun !== undefined
  }

  /** Returns where the head ended, or the length of the piece. Throws where it cannot be one. */
  read(piece: Buffer, start: number): number {
    this.text = undefined
    if (this.#begun !== undefined) {
      if (this.#endsSkipped(this.#begun, piece, start)) return start + 1
      return this.#readOn(this.#begun, piece, start)
    }
    const at = this.#skipLineEnd(piece, start)
    if (at === piece.length) return at
    const end = piece.indexOf(EMPTY_LINE, at)
    if (end === -1) {
      this.#begun = new HeldBytes()
      return this.#readOn(this.#begun, piece, at)
    }
    this.#useText(piece, at, end)
    return end + EMPTY_LINE.length
  }

  /** An idle connection keeps nothing. */
  forget(): void {
    this.text = undefined
    this.#begun = undefined
  }

  /** One at most before each request: https://www.rfc-editor.org/rfc/rfc9112#section-2.2 */
  #skipLineEnd(piece: Buffer, at: number): number {
    if (this.#hasSkipped || piece[at] !== CR || piece[at + 1] !== LF) return at
    this.#hasSkipped = true
    return at + LINE_END_BYTES
  }

  /** The other half of such a line end, where it comes by itself. */
  #endsSkipped(begun: HeldBytes, piece: Buffer, at: number): boolean {
    const isHalf = begun.length === 1 && begun.view[0] === CR && piece[at] === LF
    if (!isHalf || this.#hasSkipped) return false
    this.#hasSkipped = true
    this.#begun = undefined
    return true
  }

  #readOn(begun: HeldBytes, piece: Buffer, at: number): number {
    const before = begun.length
    // No head is longer, so that no more has to be looked at.
    begun.add(piece.subarray(at, at + this.#bytesMax + EMPTY_LINE.length))
    const { view } = begun
    const end = view.indexOf(EMPTY_LINE, Math.max(0, before - EMPTY_LINE.length + 1))
    if (end !== -1) {
      this.#begun = undefined
      this.#useText(view, 0, end)
      return at + end + EMPTY_LINE.length - before
    }
    if (begun.length > this.#bytesMax) throw tooLarge()
    // What can never become a head is not waited for.
    const start = before > 0 && view[before - 1] === CR ? before - 1 : before
    if (hasForbiddenSoFar(view.toString('latin1', start))) {
      throw requestErrors.invalid('the head has control characters')
    }
    return piece.length
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
