/**
 * Sends an answer that is here as a whole, in one write. node:http would check and put together
 * each field of its head anew; what stands there was checked when it was read from the upstream or
 * from the policy. It takes a head that is there already, though this is not documented; where a
 * version should not, the ordinary way is gone.
 */

import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import type { GatewayResponse } from '../message.ts'
import type { NodeRequest } from './node-request.ts'
import type { RespondOptions } from './respond.ts'
import { giveUpIfStalled } from './stalled.ts'

const HEAD = '_header'
const HEAD_SENT = '_headerSent'

const sample = new ServerResponse(new IncomingMessage(new Socket()))
const takesHead = Object.hasOwn(sample, HEAD) && Object.hasOwn(sample, HEAD_SENT)

/** As text a body goes out with its head in one write; beyond this, to copy it costs more. */
export const JOINED_BYTES_MAX = 8 * 1_024

/** False where the answer cannot be sent this way. */
export function sendWhole(
  request: NodeRequest,
  response: GatewayResponse,
  { isClosing, keepAliveMs, slowClients }: RespondOptions,
): boolean {
  const { outgoing, incoming, hasBody, connection } = request
  if (!takesHead || !(outgoing instanceof ServerResponse)) return false
  const isPlain = !isClosing && !hasBody && incoming.httpVersionMinor === 1
  if (!isPlain || !outgoing.shouldKeepAlive || connection.isDiscarding) return false
  const body = wholeBody(response)
  if (body === undefined) return false
  const hasNone = isBodiless(request.method, response.status)
  const head =
    response.wireHead ?? wireHead(response, hasNone ? undefined : body.length, keepAliveMs)
  if (response.isShared) response.wireHead = head
  outgoing.statusCode = response.status
  Reflect.set(outgoing, HEAD, head)
  request.isHeadSent = true
  write(outgoing, head, hasNone ? '' : body)
  giveUpIfStalled(outgoing, slowClients)
  return true
}

/**
 * Where nothing waits on the connection, straight to its socket, which is the shorter way. Else
 * behind what waits, so that who does not read cannot ask for more and more.
 */
function write(outgoing: ServerResponse, head: string, body: string): void {
  const { socket } = outgoing
  if (socket === null || socket.writableLength > 0) {
    if (body === '') outgoing.end()
    else outgoing.end(body, 'latin1')
    return
  }
  Reflect.set(outgoing, HEAD_SENT, true)
  socket.write(head + body, 'latin1')
  if (socket.writableLength === 0) outgoing.end()
  else socket.once('drain', () => outgoing.end())
}

/** Bytes as a text of one character each. */
function wholeBody({ body }: GatewayResponse): string | undefined {
  if (body === undefined || typeof body === 'string') return body ?? ''
  const bytes = Buffer.isBuffer(body) ? body : body.whole(JOINED_BYTES_MAX)
  if (bytes === undefined || bytes.length > JOINED_BYTES_MAX) return undefined
  return bytes.toString('latin1')
}

/** https://www.rfc-editor.org/rfc/rfc9110#section-6.4.1 */
function isBodiless(method: string, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

function wireHead(
  { status, statusText, headers }: GatewayResponse,
  bodyBytes: number | undefined,
  keepAliveMs: number,
): string {
  let head = `HTTP/1.1 ${status} ${statusText || STATUS_CODES[status] || 'Unknown'}\r\n`
  let hasDate = false
  let hasLength = bodyBytes === undefined
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string
    if (name === 'date') hasDate = true
    else if (name === 'content-length') hasLength = true
    head += `${name}: ${headers[at + 1]}\r\n`
  }
  if (!hasLength) head += `content-length: ${bodyBytes}\r\n`
  if (!hasDate) head += `date: ${dateNow()}\r\n`
  const keptSeconds = Math.floor(keepAliveMs / 1_000)
  return `${head}connection: keep-alive\r\nkeep-alive: timeout=${keptSeconds}\r\n\r\n`
}

let dateSecond = 0
let dateText = ''

function dateNow(): string {
  const nowMs = Date.now()
  const second = Math.floor(nowMs / 1_000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = new Date(nowMs).toUTCString()
  }
  return dateText
}
