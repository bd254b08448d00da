/** Writes a request to the socket of a server: at once if it is complete, or as it arrives. */

import type { Socket } from 'node:net'
import type { Body } from '../../body/body.ts'
import type { HeaderList } from '../../header-list.ts'
import { lineStart } from '../../http1/fields.ts'
import { type MessageOwner, writeMessage } from '../../http1/message-writer.ts'
import { upstreamError } from './upstream-error.ts'

export interface OutgoingRequest {
  readonly method: string
  /** Path and query. */
  readonly target: string
  /** Without fields that concern the connection or the length of the body. */
  readonly headers: HeaderList
  /** The caller cancels a body that was not written to its end. */
  readonly body: Buffer | Body | null
  /** The declared length of a body that is still arriving. */
  readonly bodyBytes: number | undefined
  /** The protocol to switch to. */
  readonly upgrade: string | undefined
}

/** Up to this size, a body is written with its head as one text; a larger copy costs more. */
const JOINED_BYTES_MAX = 8 * 1_024

/** As latin1, other characters would become different bytes, or end a line. */
const badInValue = /[^\t\x20-\x7e\x80-\xff]/
const badInTarget = /^$|[^\x21-\x7e]/
const token = /^[!#$%&'*+\-.^_`|~\w]+$/

const KEEP_ALIVE = '\r\nconnection: keep-alive'

/** `TE` concerns only the next server, so `Connection` must list it. */
const KEEP_ALIVE_TE = '\r\nconnection: keep-alive, te'

/** Methods for which servers expect a length even if there is no body. */
const methodsWithBody: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/** Throws, and writes nothing, if the request cannot be expressed in HTTP/1. */
export function writeRequest(socket: Socket, request: OutgoingRequest, owner: MessageOwner): void {
  const { body } = request
  const head = headOf(request)
  if (body === null) {
    socket.write(head, 'latin1')
    owner.onWritten()
  } else if (Buffer.isBuffer(body)) {
    writeWhole(socket, head, body)
    owner.onWritten()
  } else {
    const { bodyBytes } = request
    const ending = bodyBytes === undefined ? 'chunks' : 'length'
    writeMessage(socket, { head, body, ending, bodyBytes }, owner)
  }
}

function headOf(request: OutgoingRequest): string {
  const { method, target, headers, upgrade } = request
  if (!token.test(method) || !isWritableTarget(target))
    throw unwritable('the target of the request')
  let head = `${method} ${target} HTTP/1.1`
  let hasTe = false
  for (let at = 0; at < headers.length; at += 2) {
    // https://www.rfc-editor.org/rfc/rfc9110#section-10.1.4
    if (headers[at] === 'te') hasTe = true
    const start = lineStart(headers[at] as string)
    const value = headers[at + 1] as string
    if (start === undefined || badInValue.test(value)) throw unwritable('a header field')
    head += start + value
  }
  if (upgrade === undefined) head += hasTe ? KEEP_ALIVE_TE : KEEP_ALIVE
  else head += switching(upgrade, hasTe)
  return `${head}${framing(request)}\r\n\r\n`
}

export function isWritableTarget(target: string): boolean {
  return !badInTarget.test(target)
}

function switching(upgrade: string, hasTe: boolean): string {
  if (badInValue.test(upgrade)) throw unwritable('a header field')
  return `\r\nconnection: upgrade${hasTe ? ', te' : ''}\r\nupgrade: ${upgrade}`
}

export function unwritable(part: string): Error {
  return upstreamError('UPSTREAM_UNWRITABLE', `${part} cannot be written in HTTP/1`)
}

/** A body without a declared length is sent in chunks; a request never has both. */
function framing({ method, body, bodyBytes }: OutgoingRequest): string {
  if (body === null) return methodsWithBody.has(method) ? '\r\ncontent-length: 0' : ''
  const bytes = Buffer.isBuffer(body) ? body.length : bodyBytes
  return bytes === undefined ? '\r\ntransfer-encoding: chunked' : `\r\ncontent-length: ${bytes}`
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
