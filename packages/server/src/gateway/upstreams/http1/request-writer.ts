/** Writes a request to the socket of a server: in one piece where it is whole, or as it comes. */

import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { HeaderList } from '../../message.ts'

export interface OutgoingRequest {
  readonly method: string
  /** Path and query. */
  readonly target: string
  /** Without what is about the connection or the length of the body. */
  readonly headers: HeaderList
  readonly body: Buffer | Readable | null
  /** Of a body that is still arriving, where its length was told. */
  readonly bodyBytes: number | undefined
  /** The protocol to switch to. */
  readonly upgrade: string | undefined
}

export interface Writing {
  /** All of it was given to the socket. */
  onWritten(): void
  /** The server does not take more for now, or takes it again. */
  onBlocked(isBlocked: boolean): void
  onError(error: Error): void
}

/** As text a body goes out with its head in one write; beyond this, to copy it costs more. */
const JOINED_BYTES_MAX = 8 * 1_024

/** Written as they are, other characters would become others. */
const badInValue = /[^\t\x20-\x7e\x80-\xff]/
const badInTarget = /[^\x21-\x7e]/

/** Methods that servers expect a body of, if only to hear that there is none. */
const methodsWithBody: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/** Throws where it cannot be said in HTTP/1; nothing is written then. */
export function writeRequest(socket: Socket, request: OutgoingRequest, writing: Writing): void {
  const { body } = request
  const head = headOf(request)
  if (body === null) {
    socket.write(head, 'latin1')
    writing.onWritten()
  } else if (Buffer.isBuffer(body)) {
    writeWhole(socket, head, body)
    writing.onWritten()
  } else {
    socket.write(head, 'latin1')
    writeArriving(socket, body, request.bodyBytes, writing)
  }
}

function headOf(request: OutgoingRequest): string {
  const { method, target, headers, upgrade } = request
  if (badInTarget.test(target)) throw new Error('the target of the request cannot be written')
  let head = `${method} ${target} HTTP/1.1\r\n`
  for (let at = 0; at < headers.length; at += 2) {
    const value = headers[at + 1] as string
    if (badInValue.test(value)) throw new Error(`${headers[at]} cannot be written`)
    head += `${headers[at]}: ${value}\r\n`
  }
  const connection = upgrade === undefined ? 'keep-alive' : `upgrade\r\nupgrade: ${upgrade}`
  return `${head}connection: ${connection}\r\n${framing(request)}\r\n`
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
      fail(new Error('the body is shorter than was told'))
      return
    }
    if (bodyBytes === undefined) socket.write('0\r\n\r\n', 'latin1')
    writing.onWritten()
  })
  body.once('error', fail)
  // It may have broken off before anybody listened.
  if (body.errored !== null) fail(body.errored)
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
