/** Writes a request to the socket of a server: at once if it is complete, or as it arrives. */

import type { Socket } from 'node:net'
import type { Body } from '../../body/body.ts'
import type { HeaderList } from '../../header-list.ts'
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

const KEEP_ALIVE = 'connection: keep-alive\r\n'

/** `TE` concerns only the next server, so `Connection` must list it. */
const KEEP_ALIVE_TE = 'connection: keep-alive, te\r\n'

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
  if (!isToken(method) || !isWritableTarget(target)) throw unwritable('the target of the request')
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

export function isWritableTarget(target: string): boolean {
  return !badInTarget.test(target)
}

function field(name: string, value: string): string {
  if (!isToken(name) || badInValue.test(value)) throw unwritable('a header field')
  return `${name}: ${value}\r\n`
}

/** A cache of valid names: most requests have the same ones. The bounds keep it below 100 KB. */
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

export function unwritable(part: string): Error {
  return upstreamError('UPSTREAM_UNWRITABLE', `${part} cannot be written in HTTP/1`)
}

/** A body without a declared length is sent in chunks; a request never has both. */
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
