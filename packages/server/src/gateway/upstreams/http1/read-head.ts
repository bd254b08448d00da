/**
 * The head of an answer, read strictly: what two programs could read in two ways is an error.
 * https://www.rfc-editor.org/rfc/rfc9112
 */

import type { HeaderList } from '../../message.ts'
import { invalidAnswer } from './upstream-error.ts'

export interface AnswerHead {
  readonly status: number
  readonly statusText: string
  /** Names are in lower case; a name may be there more than once. */
  readonly headers: HeaderList
  /** By Content-Length. */
  readonly bodyBytes: number | undefined
  readonly isChunked: boolean
  /** What `Connection` says, in lower case; empty where it is not there. */
  readonly connection: string
  /** Whether the connection may be used again. */
  readonly isPersistent: boolean
  /** How long the server says that it keeps it. */
  readonly keepAliveMs: number | undefined
}

/** Answers have some dozens. */
const FIELDS_MAX = 1_000

/** Control characters anywhere, and line ends that are only half of one. */
const forbidden = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)|(?<!\r)\n/

const token = /^[!#$%&'*+\-.^_`|~\w]+$/

/** `text` is without the empty line at its end. */
export function readHead(text: string): AnswerHead {
  if (forbidden.test(text)) throw invalidAnswer('the head of the answer has control characters')
  const lineEnd = text.indexOf('\r\n')
  const statusLine = lineEnd === -1 ? text : text.slice(0, lineEnd)
  // HTTP-version SP status-code, and then nothing or SP and a text.
  const match = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: (.*))?$/.exec(statusLine)
  if (match === null) throw invalidAnswer('the answer has no valid status line')
  const fields = new Fields(match[1] === '1')
  if (lineEnd !== -1) readFields(text, lineEnd + 2, fields)
  return fields.head(Number(match[2]), match[3] ?? '')
}

/** The fields behind the last chunk. */
export function readTrailers(text: string): HeaderList | undefined {
  if (forbidden.test(text)) throw invalidAnswer('the trailers have control characters')
  if (text === '') return undefined
  const headers: HeaderList = []
  readFields(text, 0, {
    add(name, value) {
      // Too late to be believed, but somebody might.
      if (name === 'content-length' || name === 'transfer-encoding') {
        throw invalidAnswer('the trailers tell a length of the body')
      }
      headers.push(name, value)
    },
  })
  return headers
}

function readFields(
  text: string,
  start: number,
  fields: { add(name: string, value: string): void },
): void {
  let count = 0
  for (let at = start; at < text.length; ) {
    const found = text.indexOf('\r\n', at)
    const end = found === -1 ? text.length : found
    const colon = text.indexOf(':', at)
    if (colon === -1 || colon >= end) throw invalidAnswer('a line of the head is no header field')
    count += 1
    if (count > FIELDS_MAX) throw invalidAnswer(`the answer has more than ${FIELDS_MAX} fields`)
    fields.add(lowerName(text.slice(at, colon)), trimmed(text, colon + 1, end))
    at = end + 2
  }
}

/** Names that were seen and are valid, with their form in lower case; most come again and again. */
const knownNames = new Map<string, string>()
const KNOWN_NAMES_MAX = 1_000
const KNOWN_NAME_LENGTH_MAX = 64

function lowerName(name: string): string {
  const known = knownNames.get(name)
  if (known !== undefined) return known
  // A line that goes on from the one before begins with a space, and so does no name.
  if (!token.test(name)) throw invalidAnswer('a header field has no valid name')
  const lower = name.toLowerCase()
  if (knownNames.size < KNOWN_NAMES_MAX && name.length <= KNOWN_NAME_LENGTH_MAX) {
    knownNames.set(copyOf(name), copyOf(lower))
  }
  return lower
}

/** A part of a text keeps all of that text in memory. */
function copyOf(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}

const SPACE = 0x20
const TAB = 0x09

function trimmed(text: string, start: number, end: number): string {
  while (start < end && isSpace(text.charCodeAt(start))) start += 1
  while (end > start && isSpace(text.charCodeAt(end - 1))) end -= 1
  return text.slice(start, end)
}

function isSpace(code: number): boolean {
  return code === SPACE || code === TAB
}

class Fields {
  readonly #headers: HeaderList = []
  readonly #isHttp11: boolean
  #bodyBytes: number | undefined
  #isChunked = false
  #connection = ''
  #keepAlive = ''

  constructor(isHttp11: boolean) {
    this.#isHttp11 = isHttp11
  }

  add(name: string, value: string): void {
    if (name === 'content-length') this.#addLength(value)
    else if (name === 'transfer-encoding') this.#addCoding(value)
    else if (name === 'connection') {
      const lower = value.toLowerCase()
      this.#connection = this.#connection === '' ? lower : `${this.#connection},${lower}`
    } else if (name === 'keep-alive') this.#keepAlive = value
    this.#headers.push(name, value)
  }

  head(status: number, statusText: string): AnswerHead {
    if (this.#isChunked && this.#bodyBytes !== undefined) {
      throw invalidAnswer('the length of the body is told in two ways')
    }
    const connection = this.#connection
    const tokens = connection === '' ? [] : connection.split(',').map((one) => one.trim())
    const isKept = this.#isHttp11 || tokens.includes('keep-alive')
    return {
      status,
      statusText,
      headers: this.#headers,
      bodyBytes: this.#bodyBytes,
      isChunked: this.#isChunked,
      connection,
      isPersistent: isKept && !tokens.includes('close'),
      keepAliveMs: this.#keepAlive === '' ? undefined : keepAliveMs(this.#keepAlive),
    }
  }

  #addLength(value: string): void {
    if (this.#bodyBytes !== undefined || !/^\d{1,15}$/.test(value)) {
      throw invalidAnswer('an answer has one Content-Length, a whole number')
    }
    this.#bodyBytes = Number(value)
  }

  /** Any other coding would have to be undone by us, because it is not told to the client. */
  #addCoding(value: string): void {
    if (this.#isChunked || !this.#isHttp11 || value.toLowerCase() !== 'chunked') {
      throw invalidAnswer('the only transfer coding of an answer is chunked')
    }
    this.#isChunked = true
  }
}

function keepAliveMs(value: string): number | undefined {
  const seconds = /(?:^|[\s,;])timeout=(\d{1,6})/i.exec(value)?.[1]
  return seconds === undefined ? undefined : Number(seconds) * 1_000
}
