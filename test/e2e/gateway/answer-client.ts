/**
 * A client on one connection that reads each response exactly to the end that its head declares:
 * https://www.rfc-editor.org/rfc/rfc9112#section-6.3
 */

import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { LOOPBACK } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'

export interface Answer {
  readonly status: number
  /** Names in lower case; values of the same name are joined by commas. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly trailers: Readonly<Record<string, string>>
  /** How the end of the response is declared. */
  readonly framing: 'no body' | 'length' | 'chunks' | 'close'
}

export class AnswerClient {
  readonly socket: Socket
  readonly #reader: AnswerReader
  #received = ''

  /**
   * Closed when the test ends. `methods` are the methods of its requests; needed if one is HEAD.
   */
  constructor(port: number, methods: readonly string[] = []) {
    this.#reader = new AnswerReader(methods)
    this.socket = connect({ port, host: LOOPBACK, noDelay: true })
    this.socket.setEncoding('latin1')
    this.socket.on('error', () => undefined)
    this.socket.on('data', (chunk) => {
      this.#received += chunk
      this.#reader.read(String(chunk))
    })
    this.socket.on('end', () => this.#reader.end())
    onTestFinished(() => void this.socket.destroy())
  }

  /** All complete responses, also interim ones. */
  get answers(): readonly Answer[] {
    return this.#reader.answers
  }

  get statuses(): number[] {
    return this.answers.map(({ status }) => status)
  }

  /** The bytes of an incomplete response. */
  get rest(): string {
    return this.#reader.rest
  }

  get received(): string {
    return this.#received
  }

  send(...requests: string[]): void {
    this.socket.write(requests.join(''), 'latin1')
  }

  /** Waits for the response with this number, from 0. */
  answer(at: number): Promise<Answer> {
    return until(`there is answer ${at}`, () => {
      const answer = this.answers[at]
      if (answer !== undefined || !this.socket.closed) return answer
      throw new Error(`closed after ${JSON.stringify(this.#received)}`)
    })
  }

  async ask(...requests: string[]): Promise<Answer> {
    const at = this.answers.length
    this.send(...requests)
    return this.answer(at)
  }

  closed(): Promise<true> {
    return until('the connection is closed', () => this.socket.closed || undefined)
  }
}

/** The head of a request. */
export const head = (line: string, ...fields: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`

export const oldHead = (line: string, ...fields: string[]) =>
  `${[`${line} HTTP/1.0`, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`

const MEANS_NO_BODY: ReadonlySet<number> = new Set([204, 304])

class AnswerReader {
  readonly answers: Answer[] = []
  readonly #methods: string[]
  rest = ''

  constructor(methods: readonly string[]) {
    this.#methods = [...methods]
  }

  read(text: string): void {
    this.rest += text
    for (let taken = this.#take(false); taken; taken = this.#take(false));
  }

  end(): void {
    this.#take(true)
  }

  /** Returns whether there was a complete response. */
  #take(isOver: boolean): boolean {
    const headEndAt = this.rest.indexOf('\r\n\r\n')
    if (headEndAt === -1) return false
    const [line = '', ...lines] = this.rest.slice(0, headEndAt).split('\r\n')
    const matched = /^HTTP\/1\.1 (\d{3}) /.exec(line)
    if (matched === null) throw new Error(`no answer begins with ${JSON.stringify(line)}`)
    const [status, headers] = [Number(matched[1]), fieldsOf(lines)]
    const framing = framingOf(status, headers, this.#methods[0])
    const bytes = this.rest.slice(headEndAt + 4)
    const found = bodyOf(framing, headers, bytes, isOver)
    if (found === undefined) return false
    this.rest = bytes.slice(found.length)
    this.answers.push({ status, headers, framing, body: found.body, trailers: found.trailers })
    if (status >= 200) this.#methods.shift()
    return this.rest !== ''
  }
}

function framingOf(
  status: number,
  headers: Readonly<Record<string, string>>,
  method: string | undefined,
): Answer['framing'] {
  if (method === 'HEAD' || status < 200 || MEANS_NO_BODY.has(status)) return 'no body'
  if (headers['transfer-encoding'] === 'chunked') return 'chunks'
  return headers['content-length'] === undefined ? 'close' : 'length'
}

interface FoundBody {
  readonly body: string
  readonly trailers: Readonly<Record<string, string>>
  /** Length of head, body and trailers. */
  readonly length: number
}

/** Undefined if the body is not complete. */
function bodyOf(
  framing: Answer['framing'],
  headers: Readonly<Record<string, string>>,
  bytes: string,
  isOver: boolean,
): FoundBody | undefined {
  if (framing === 'chunks') return chunksOf(bytes)
  if (framing === 'close') {
    return isOver ? { body: bytes, trailers: {}, length: bytes.length } : undefined
  }
  const length = framing === 'no body' ? 0 : Number(headers['content-length'])
  if (bytes.length < length) return undefined
  return { body: bytes.slice(0, length), trailers: {}, length }
}

function chunksOf(bytes: string): FoundBody | undefined {
  let body = ''
  for (let at = 0; ; ) {
    const matched = /^([0-9a-f]+)\r\n/i.exec(bytes.slice(at, at + 20))
    if (matched === null) return undefined
    const size = Number.parseInt(matched[1] as string, 16)
    at += matched[0].length
    if (size === 0) return endOfChunks(bytes, at, body)
    if (bytes.length < at + size + 2) return undefined
    if (bytes.slice(at + size, at + size + 2) !== '\r\n') throw new Error('a chunk without an end')
    body += bytes.slice(at, at + size)
    at += size + 2
  }
}

function endOfChunks(bytes: string, at: number, body: string): FoundBody | undefined {
  if (bytes.startsWith('\r\n', at)) return { body, trailers: {}, length: at + 2 }
  const endAt = bytes.indexOf('\r\n\r\n', at)
  if (endAt === -1) return undefined
  return { body, trailers: fieldsOf(bytes.slice(at, endAt).split('\r\n')), length: endAt + 4 }
}

function fieldsOf(lines: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {}
  for (const line of lines) {
    const colonAt = line.indexOf(':')
    const name = line.slice(0, colonAt).toLowerCase()
    const value = line.slice(colonAt + 1).trim()
    fields[name] = fields[name] === undefined ? value : `${fields[name]}, ${value}`
  }
  return fields
}
