/**
 * A body in chunks, read strictly. https://www.rfc-editor.org/rfc/rfc9112#section-7.1
 *
 * The bytes of all chunks of a piece are handed on together, so that chunks of one byte cost the
 * stages behind little more than one large chunk. They are moved together within the piece.
 */

import type { HeaderList } from '../message.ts'
import { type ReadErrors, readTrailers } from './fields.ts'

/** A size and what may follow it. */
const SIZE_LINE_BYTES_MAX = 1_024

/**
 * What a size may take, beside twice the bytes of its chunk. What is beyond counts, up to a bound
 * for the whole body: extensions are no part of it, and whatever bounds a body does not see them.
 */
const FREE_BYTES_PER_SIZE = 16
const EXTENSION_BYTES_MAX = 16 * 1_024

const TRAILER_BYTES_MAX = 16 * 1_024

const CR = 0x0d
const LF = 0x0a

/** Chunks up to here are moved byte by byte, which takes less time than a call. */
const MOVED_SINGLY_BYTES_MAX = 16

/** Sizes with more digits, which are rare, are read as text. */
const PLAIN_DIGITS_MAX = 8
const LINE_END = '\r\n'
const EMPTY_LINE = '\r\n\r\n'

/** Extensions mean nothing to us, but nothing else may hide in them. */
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const extension = `;${token}(?:=(?:${token}|"[\\t !#-[\\]-~]*"))?`
const sizeLine = new RegExp(`^([0-9A-Fa-f]{1,12})(?:${extension})*\\r$`)

type State = 'size' | 'data' | 'data-end' | 'trailers' | 'done'

export class ChunkedReader {
  readonly #onData: (chunk: Buffer) => void
  readonly #errors: ReadErrors
  #state: State = 'size'
  #left = 0
  /** The bytes of chunks in the piece that is being read. */
  #from = 0
  #to = 0
  /** How much more than allowed the sizes have taken so far. */
  #excessBytes = 0
  /** A line, or the trailers, as far as they are here. */
  #text = ''
  trailers: HeaderList | undefined

  constructor(onData: (chunk: Buffer) => void, errors: ReadErrors) {
    this.#onData = onData
    this.#errors = errors
  }

  get isDone(): boolean {
    return this.#state === 'done'
  }

  /**
   * Returns where the body ended, or the length of the piece. Bytes before that may change.
   * If it throws, no bytes of this piece are handed on.
   */
  read(piece: Buffer, start: number): number {
    let at = start
    this.#from = 0
    this.#to = 0
    while (at < piece.length && this.#state !== 'done') {
      if (this.#state === 'data') at = this.#readData(piece, at)
      else if (this.#state === 'trailers') at = this.#readTrailers(piece, at)
      else at = this.#readPlainLine(piece, at) ?? this.#readLine(piece, at)
    }
    if (this.#to > this.#from) this.#onData(piece.subarray(this.#from, this.#to))
    return at
  }

  #readData(piece: Buffer, at: number): number {
    const end = Math.min(piece.length, at + this.#left)
    const length = end - at
    this.#left -= length
    if (this.#left === 0) this.#state = 'data-end'
    if (this.#to === this.#from) this.#from = this.#to = at
    else if (length > MOVED_SINGLY_BYTES_MAX) piece.copy(piece, this.#to, at, end)
    else for (let n = 0; n < length; n += 1) piece[this.#to + n] = piece[at + n] as number
    this.#to += length
    return end
  }

  /**
   * Reads a line that is here as a whole and has nothing but its digits: the fast path. Returns
   * undefined for all others.
   */
  #readPlainLine(piece: Buffer, start: number): number | undefined {
    if (this.#text !== '') return undefined
    let at = start
    let size = 0
    if (this.#state === 'size') {
      for (; at - start < PLAIN_DIGITS_MAX; at += 1) {
        const digit = hexDigit(piece[at])
        if (digit === undefined) break
        size = size * 16 + digit
      }
      if (at === start) return undefined
    }
    if (piece[at] !== CR || piece[at + 1] !== LF) return undefined
    if (this.#state === 'size') this.#useSize(size, at + 1 - start)
    else this.#state = 'size'
    return at + 2
  }

  /** The one with a size, or the empty one behind the bytes of a chunk. */
  #readLine(piece: Buffer, at: number): number {
    const found = piece.indexOf(LF, at)
    const end = found === -1 ? piece.length : found
    if (this.#text.length + end - at > SIZE_LINE_BYTES_MAX) {
      throw this.#errors.invalid('the line with the size of a chunk is too long')
    }
    this.#text += piece.toString('latin1', at, end)
    if (found === -1) return end
    if (this.#state === 'size') this.#readSize(this.#text)
    else if (this.#text === '\r') this.#state = 'size'
    else throw this.#errors.invalid('a chunk is longer than its size')
    this.#text = ''
    return end + 1
  }

  #readSize(line: string): void {
    const size = sizeLine.exec(line)?.[1]
    if (size === undefined) throw this.#errors.invalid('a chunk has no valid size')
    this.#useSize(Number.parseInt(size, 16), line.length)
  }

  #useSize(size: number, lineBytes: number): void {
    this.#left = size
    const excess = this.#excessBytes + lineBytes - FREE_BYTES_PER_SIZE - 2 * this.#left
    if (excess > EXTENSION_BYTES_MAX) {
      throw this.#errors.invalid('the chunks have more extensions than bytes')
    }
    this.#excessBytes = Math.max(0, excess)
    this.#state = this.#left === 0 ? 'trailers' : 'data'
  }

  #readTrailers(piece: Buffer, at: number): number {
    const before = this.#text.length
    // No trailers are longer, so that no more has to be looked at.
    const lengthMax = TRAILER_BYTES_MAX + EMPTY_LINE.length
    const text = this.#text + piece.toString('latin1', at, at + lengthMax)
    const end = text.startsWith(LINE_END) ? 0 : text.indexOf(EMPTY_LINE)
    if (end > TRAILER_BYTES_MAX || (end === -1 && text.length >= lengthMax)) {
      throw this.#errors.tooLarge('the trailers are too large')
    }
    if (end === -1) {
      this.#text = text
      return piece.length
    }
    this.trailers = readTrailers(text.slice(0, end), this.#errors)
    this.#state = 'done'
    const length = end === 0 ? LINE_END.length : end + EMPTY_LINE.length
    return at + length - before
  }
}

function hexDigit(code: number | undefined): number | undefined {
  if (code === undefined) return undefined
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined
}
