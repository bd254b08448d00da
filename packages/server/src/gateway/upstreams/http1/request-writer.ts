/** Writes a request to the socket of a server: in one piece where it is whole, or as it comes. */

import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { HeaderList } from '../../message.ts'
import { upstreamError } from './upstream-error.ts'

export interface OutgoingRequest {
  readonly method: string
  /** Path and query. */
  readonly target: string
  /** Without what is about the connection or the length of the body. */
  readonly headers: HeaderList
  /** Of one that is still arriving, whoever sends it destroys what was not taken in the end. */
  readonly body: Buffer | Readable | null
  /** Of a body that is still arriving, where its length was told. */
  readonly bodyBytes: number | undefined
  /** The protocol to switch to. */
  readonly upgrade: string | undefined
}

export interface Writing {
  /** The head of a request whose body is still arriving has gone out. */
  onBegun(): void
  /** All of it was given to the socket. */
  onWritten(): void
  /** The server does not take more for now, or takes it again. */
  onBlocked(isBlocked: boolean): void
  onError(error: Error): void
}

/** As text a body goes out with its head in one write; beyond this, to copy it costs more. */
const JOINED_BYTES_MAX = 8 * 1_024

/** Written as they are, other characters would become others, or end a line. */
const badInValue = /[^\t\x20-\x7e\x80-\xff]/
const badInTarget = /^$|[^\x21-\x7e]/
const token = /^[!#$%&'*+\-.^_`|~\w]+$/

const KEEP_ALIVE = 'connection: keep-alive\r\n'

/** `TE` is for the next server only, and must say so. */
const KEEP_ALIVE_TE = 'connection: keep-alive, te\r\n'

/** Methods that servers expect a body of, if only to hear that there is none. */
const methodsWithBody: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/** Throws where it cannot be said in HTTP/1, or has broken off; nothing is written then. */
export function writeRequest(socket: Socket, request: OutgoingRequest, writing: Writing): void {
  const { body } = request
  const head = headOf(request)
  if (body !== null && !Buffer.isBuffer(body) && body.destroyed) throw body.errored ?? brokenOff()
  if (body === null) {
    socket.write(head, 'latin1')
    writing.onWritten()
  } else if (Buffer.isBuffer(body)) {
    writeWhole(socket, head, body)
    writing.onWritten()
  } else {
    socket.write(head, 'latin1', (error) => {
      if (!error) writing.onBegun()
    })
    writeArriving(socket, body, request.bodyBytes, writing)
  }
}

function headOf(request: OutgoingRequest): string {
  const { method, target, headers, upgrade } = request
  if (!isToken(method) || badInTarget.test(target)) throw unwritable('the target of the request')
  let head = `${method} ${target} HTTP/1.1\r\n`
  let hasTe = false
  for (let at = 0; at < headers.length; at += 2) {
    // https://www.rfc-editor.org/rfc/rfc9110#section-10.1.4
    if (headers[at] === 'te') hasTe = true
    head += field(headers[at] as string, headers[at + 1] as string)
  }
  if (upgrade === undefined) head += hasTe ? KEEP_ALIVE_TE : KEEP_ALIVE
  else head += `connection: upgrade${hasTe ? ', te' : ''}\r\n${field('upgrade', upgrade)}`
  return `${head}${framing(request)}\r\n`
}

function field(name: string, value: string): string {
  if (!isToken(name) || badInValue.test(value)) throw unwritable('a header field')
  return `${name}: ${value}\r\n`
}

/** Names that were seen and are valid; most come again and again. */
const knownTokens = new Set<string>()
const KNOWN_TOKENS_MAX = 1_000
const KNOWN_TOKEN_LENGTH_MAX = 64

function isToken(name: string): boolean {
  if (knownTokens.has(name)) return true
  if (!token.test(name)) return false
  if (knownTokens.size < KNOWN_TOKENS_MAX && name.length <= KNOWN_TOKEN_LENGTH_MAX) {
    knownTokens.add(name)
  }
  return true
}

function unwritable(what: string): Error {
  return upstreamError('UPSTREAM_UNWRITABLE', `${what} cannot be written in HTTP/1`)
}

/** A length that was not told makes the body chunked; never are there both. */
function framing({ method, body, bodyBytes }: OutgoingRequest): string {
  if (body === null) return methodsWithBody.has(method) ? 'content-length: 0\r\n' : ''
  const bytes = Buffer.isBuffer(body) ? body.length : bodyBytes
  return bytes === undefined ? 'transfer-encoding: chunked\r\n' : `content-length: ${bytes}\r\n`
}

function writeWhole(socket: Socket, head: string, body: Buffer): void {
  if (body.length <= JOINED_BYTES_MAX) {
    socket.write(head + body.toString('latin1'), 'latin1')
    return
  }
  socket.cork()
  socket.write(head, 'latin1')
  socket.write(body)
  socket.uncork()
}

function writeArriving(
  socket: Socket,
  body: Readable,
  bodyBytes: number | undefined,
  writing: Writing,
): void {
  let written = 0
  const fail = (error: Error) => writing.onError(error)
  body.on('data', (chunk: Buffer) => {
    // A chunk of no bytes would be the last one.
    if (chunk.length === 0) return
    written += chunk.length
    if (bodyBytes !== undefined && written > bodyBytes) {
      body.destroy(new Error('the body is longer than was told'))
      return
    }
    if (writePiece(socket, chunk, bodyBytes === undefined)) return
    body.pause()
    writing.onBlocked(true)
    socket.once('drain', () => {
      writing.onBlocked(false)
      body.resume()
    })
  })
  body.once('end', () => {
    if (bodyBytes !== undefined && written < bodyBytes) {
      fail(brokenOff())
      return
    }
    if (bodyBytes === undefined) socket.write('0\r\n\r\n', 'latin1')
    writing.onWritten()
  })
  body.once('error', fail)
  body.once('close', () => {
    if (!body.readableEnded) fail(brokenOff())
  })
}

function brokenOff(): Error {
  return Object.assign(new Error('the body has broken off'), { code: 'TIDEGATE_BODY_ABORTED' })
}

function writePiece(socket: Socket, chunk: Buffer, isChunked: boolean): boolean {
  if (!isChunked) return socket.write(chunk)
  socket.cork()
  socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
  socket.write(chunk)
  const takesMore = socket.write('\r\n', 'latin1')
  socket.uncork()
  return takesMore
}
