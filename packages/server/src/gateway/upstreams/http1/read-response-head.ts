/**
 * Reads the head of a response strictly: bytes that two programs could read differently are errors.
 * https://www.rfc-editor.org/rfc/rfc9112
 */

import type { HeaderList } from '../../header-list.ts'
import { FIELDS_MAX, hasForbidden, readFields } from '../../http1/fields.ts'
import { invalidResponse, responseErrors } from './upstream-error.ts'

export interface ResponseHead {
  readonly status: number
  readonly statusText: string
  /** Names are in lower case, and can occur more than once. */
  readonly headers: HeaderList
  /** The value of `Content-Length`. */
  readonly bodyBytes: number | undefined
  readonly isChunked: boolean
  /** The value of `Connection` in lower case; empty if there is none. */
  readonly connection: string
  /** True if the connection can be used again. */
  readonly isPersistent: boolean
  /** How long the server keeps it, as declared in `Keep-Alive`. */
  readonly keepAliveMs: number | undefined
}

const reading = { errors: responseErrors, fieldsMax: FIELDS_MAX }

/** `text` does not include the empty line. */
export function readHead(text: string): ResponseHead {
  if (hasForbidden(text)) throw invalidResponse('the head of the response has control characters')
  const lineEnd = text.indexOf('\r\n')
  const statusLine = lineEnd === -1 ? text : text.slice(0, lineEnd)
  // HTTP-version SP status-code, optionally followed by SP and a text.
  const match = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: (.*))?$/.exec(statusLine)
  if (match === null) throw invalidResponse('the response has no valid status line')
  const fields = new Fields(match[1] === '1')
  if (lineEnd !== -1) {
    const add = (name: string, value: string) => fields.add(name, value)
    readFields(text, lineEnd + 2, add, reading)
  }
  return fields.head(Number(match[2]), match[3] ?? '')
}

/**
 * Checks the fields of a head that another parser has read. It does not report the version: fields
 * are checked as those of HTTP/1.1.
 */
export function headOf(status: number, statusText: string, list: HeaderList): ResponseHead {
  if (list.length > FIELDS_MAX * 2) {
    throw responseErrors.tooLarge(`there are more than ${FIELDS_MAX} header fields`)
  }
  const fields = new Fields(true)
  for (let at = 0; at < list.length; at += 2) {
    fields.add(list[at] as string, list[at + 1] as string)
  }
  return fields.head(status, statusText)
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

  head(status: number, statusText: string): ResponseHead {
    if (this.#isChunked && this.#bodyBytes !== undefined) {
      throw invalidResponse('the length of the body is declared in two ways')
    }
    const connection = this.#connection
    return {
      status,
      statusText,
      headers: this.#headers,
      bodyBytes: this.#bodyBytes,
      isChunked: this.#isChunked,
      connection,
      isPersistent: isPersistent(connection, this.#isHttp11),
      keepAliveMs: this.#keepAlive === '' ? undefined : keepAliveMs(this.#keepAlive),
    }
  }

  #addLength(value: string): void {
    if (this.#bodyBytes !== undefined || !/^\d{1,15}$/.test(value)) {
      throw invalidResponse('a response has one Content-Length, a whole number')
    }
    this.#bodyBytes = Number(value)
  }

  /** The gateway would have to decode any other coding, because it is not forwarded. */
  #addCoding(value: string): void {
    if (this.#isChunked || !this.#isHttp11 || value.toLowerCase() !== 'chunked') {
      throw invalidResponse('the only transfer coding of a response is chunked')
    }
    this.#isChunked = true
  }
}

function isPersistent(connection: string, isHttp11: boolean): boolean {
  // Nearly all servers send one of these, or nothing.
  if (connection === 'keep-alive') return true
  if (connection === '') return isHttp11
  const tokens = connection.split(',').map((one) => one.trim())
  return (isHttp11 || tokens.includes('keep-alive')) && !tokens.includes('close')
}

function keepAliveMs(value: string): number | undefined {
  const seconds = /(?:^|[\s,;])timeout=(\d{1,6})/i.exec(value)?.[1]
  return seconds === undefined ? undefined : Number(seconds) * 1_000
}
