/**
 * Reads a chunked body strictly. https://www.rfc-editor.org/rfc/rfc9112#section-7.1
 *
 * The chunks of one read are passed on together, so that chunks of one byte cost later stages
 * little more than one large chunk. They are moved together within the buffer.
 */

import type { HeaderList } from '../header-list.ts'
import { type ReadErrors, readTrailers } from './fields.ts'

/** A size and its extensions; servers send none or a few bytes. */
const SIZE_LINE_BYTES_MAX = 1_024

/**
 * Free bytes of a size line, besides twice the bytes of its chunk. Further bytes are summed up to
 * a bound for the whole body, because the limit of a body does not count extensions.
 */
const FREE_BYTES_PER_SIZE = 16
const EXTENSION_BYTES_MAX = 16 * 1_024

/** As large as the head of a request may be. */
const TRAILER_BYTES_MAX = 16 * 1_024

const CR = 0x0d
const LF = 0x0a

/** Smaller chunks are moved byte by byte, which takes less time than a call of `copy`. */
const MOVED_SINGLY_BYTES_MAX = 16

/** Sizes with more digits, which are rare, are read as text. */
const PLAIN_DIGITS_MAX = 8
const LINE_END = '\r\n'
const EMPTY_LINE = '\r\n\r\n'

/** Extensions are ignored, but must be valid: nothing else may hide in them. */
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const extension = `;${token}(?:=(?:${token}|"[\\t !#-[\\]-~]*"))?`
const sizeLine = new RegExp(`^([0-9A-Fa-f]{1,12})(?:${extension})*\\r$`)

type State = 'size' | 'data' | 'data-end' | 'trailers' | 'done'

export class ChunkedReader {
  readonly #onData: (chunk: Buffer) => void
  readonly #errors: ReadErrors
  #state: State = 'size'
  #leftBytes = 0
  /** The range of the chunks in the bytes that are being read. */
  #from = 0
  #to = 0
  /** The bytes of size lines that were not free so far. */
  #excessBytes = 0
  /** The beginning of a line or of the trailers. */
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
   * Returns where the body ended, or the length of the bytes. Bytes before that may change.
   * If it throws, none of these bytes are passed on.
   */
  read(bytes: Buffer, start: number): number {
    let at = start
    this.#from = 0
    this.#to = 0
    while (at < bytes.length && this.#state !== 'done') {
      if (this.#state === 'data') at = this.#readData(bytes, at)
      else if (this.#state === 'trailers') at = this.#readTrailers(bytes, at)
      else at = this.#readPlainLine(bytes, at) ?? this.#readLine(bytes, at)
    }
    if (this.#to > this.#from) this.#onData(bytes.subarray(this.#from, this.#to))
    return at
  }

  #readData(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#leftBytes)
    const length = end - at
    this.#leftBytes -= length
    if (this.#leftBytes === 0) this.#state = 'data-end'
    if (this.#to === this.#from) this.#from = this.#to = at
    else if (length > MOVED_SINGLY_BYTES_MAX) bytes.copy(bytes, this.#to, at, end)
    else for (let n = 0; n < length; n += 1) bytes[this.#to + n] = bytes[at + n] as number
    this.#to += length
    return end
  }

  /**
   * The fast path: reads a complete line that has only digits. Returns undefined for all others.
   */
  #readPlainLine(bytes: Buffer, start: number): number | undefined {
    if (this.#text !== '') return undefined
    let at = start
    let size = 0
    if (this.#state === 'size') {
      for (; at - start < PLAIN_DIGITS_MAX; at += 1) {
        const digit = hexDigit(bytes[at])
        if (digit === undefined) break
        size = size * 16 + digit
      }
      if (at === start) return undefined
    }
    if (bytes[at] !== CR || bytes[at + 1] !== LF) return undefined
    if (this.#state === 'size') this.#useSize(size, at + 1 - start)
    else this.#state = 'size'
    return at + 2
  }

  /** Reads a line with a size, or the line end behind the bytes of a chunk. */
  #readLine(bytes: Buffer, at: number): number {
    const found = bytes.indexOf(LF, at)
    const end = found === -1 ? bytes.length : found
    if (this.#text.length + end - at > SIZE_LINE_BYTES_MAX) {
      throw this.#errors.invalid('the line with the size of a chunk is too long')
    }
    this.#text += bytes.toString('latin1', at, end)
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
    this.#leftBytes = size
    const excess = this.#excessBytes + lineBytes - FREE_BYTES_PER_SIZE - 2 * this.#leftBytes
    if (excess > EXTENSION_BYTES_MAX) {
      throw this.#errors.invalid('the chunks have more extensions than bytes')
    }
    this.#excessBytes = Math.max(0, excess)
    this.#state = this.#leftBytes === 0 ? 'trailers' : 'data'
  }

  #readTrailers(bytes: Buffer, at: number): number {
    const before = this.#text.length
    // No trailers are longer, so no more bytes need to be searched.
    const lengthMax = TRAILER_BYTES_MAX + EMPTY_LINE.length
    const text = this.#text + bytes.toString('latin1', at, at + lengthMax)
    const end = text.startsWith(LINE_END) ? 0 : text.indexOf(EMPTY_LINE)
    if (end > TRAILER_BYTES_MAX || (end === -1 && text.length >= lengthMax)) {
      throw this.#errors.tooLarge('the trailers are too large')
    }
    if (end === -1) {
      this.#text = text
      return bytes.length
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
