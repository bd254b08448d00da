/**
 * The head of an answer, read strictly: what two programs could read in two ways is an error.
 * https://www.rfc-editor.org/rfc/rfc9112
 */

import { FIELDS_MAX, hasForbidden, readFields } from '../../http1/fields.ts'
import type { HeaderList } from '../../message.ts'
import { answerErrors, invalidAnswer } from './upstream-error.ts'

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

const reading = { errors: answerErrors, fieldsMax: FIELDS_MAX }

/** `text` is without the empty line at its end. */
export function readHead(text: string): AnswerHead {
  if (hasForbidden(text)) throw invalidAnswer('the head of the answer has control characters')
  const lineEnd = text.indexOf('\r\n')
  const statusLine = lineEnd === -1 ? text : text.slice(0, lineEnd)
  // HTTP-version SP status-code, and then nothing or SP and a text.
  const match = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: (.*))?$/.exec(statusLine)
  if (match === null) throw invalidAnswer('the answer has no valid status line')
  const fields = new Fields(match[1] === '1')
  if (lineEnd !== -1) {
    const add = (name: string, value: string) => fields.add(name, value)
    readFields(text, lineEnd + 2, add, reading)
  }
  return fields.head(Number(match[2]), match[3] ?? '')
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
