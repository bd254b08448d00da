/**
 * Writes a response to its client. What is complete goes out in one piece; what is still arriving
 * flows at the client's pace. A body that breaks off takes the connection with it, because nothing
 * else tells the client that something is missing.
 */

import { ServerResponse } from 'node:http'
import { constants, type Http2ServerResponse } from 'node:http2'
import type { BodySink, BodySource, GatewayResponse, HeaderList } from '../message.ts'
import { refusal } from '../refusal.ts'
import { closeAfterReading } from './lingering.ts'
import { hasGone, isHttp1, type NodeRequest, type Outgoing } from './node-request.ts'
import type { SlowClients } from './slow-clients.ts'
import { cutOff, giveUpIfStalled } from './stalled.ts'
import { JOINED_BYTES_MAX, sendWhole } from './whole-response.ts'

export interface RespondOptions {
  /** Whether the connection is to be given up after this answer. */
  readonly isClosing: boolean
  /** How long a connection is kept after it. */
  readonly keepAliveMs: number
  readonly slowClients: SlowClients
}

/** A rest of a body up to here is cheaper to read than a new connection is to make. */
const DISCARDED_BYTES_MAX = 64 * 1_024

export function respond(
  request: NodeRequest,
  response: GatewayResponse,
  options: RespondOptions,
): void {
  const { outgoing } = request
  if (hasGone(outgoing)) return
  if (sendWhole(request, response, options)) return
  try {
    writeHead(request, response, options)
  } catch {
    // What the upstream sent cannot be said in this protocol.
    if (outgoing.headersSent) {
      outgoing.destroy()
      return
    }
    response = refusal(502, 'The upstream gave no valid answer.')
    writeHead(request, response, options)
  }
  request.isHeadSent = true
  const { body } = response
  if (body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body)) {
    pipe(body, outgoing, options.slowClients)
    return
  }
  if (typeof body === 'string') outgoing.end(body, 'latin1')
  else outgoing.end(body ?? '')
  giveUpIfStalled(outgoing, options.slowClients)
}

function writeHead(
  request: NodeRequest,
  { status, statusText, headers }: GatewayResponse,
  { isClosing }: RespondOptions,
): void {
  const { outgoing, incoming } = request
  const isUnread = request.hasBody && !incoming.complete
  if (outgoing instanceof ServerResponse) {
    if (isUnread) leaveUnread(request, outgoing)
    if (isClosing) outgoing.shouldKeepAlive = false
    const fields = incoming.httpVersion === '1.0' ? withoutTrailer(headers) : headers
    if (statusText === '') outgoing.writeHead(status, fields)
    else outgoing.writeHead(status, statusText, fields)
    return
  }
  if (isUnread) outgoing.once('finish', () => outgoing.stream.close(constants.NGHTTP2_NO_ERROR))
  for (let at = 0; at < headers.length; at += 2) {
    outgoing.appendHeader(headers[at] as string, headers[at + 1] as string)
  }
  outgoing.writeHead(status)
}

/** Answered before the body was there: a little of it is read and thrown away, not any amount. */
function leaveUnread(request: NodeRequest, outgoing: ServerResponse): void {
  const { incoming, connection, bodyBytes } = request
  if (!isHttp1(incoming)) return
  connection.isDiscarding = true
  incoming.once('end', () => {
    connection.isDiscarding = false
  })
  outgoing.once('finish', () => incoming.resume())
  if (bodyBytes !== undefined && bodyBytes <= DISCARDED_BYTES_MAX) return
  outgoing.shouldKeepAlive = false
  closeAfterReading(incoming.socket)
}

function withoutTrailer(headers: HeaderList): HeaderList {
  const at = headers.indexOf('trailer')
  return at === -1 ? headers : headers.toSpliced(at, 2)
}

function pipe(body: BodySource, outgoing: Outgoing, slowClients: SlowClients): void {
  const sink = new OutgoingSink(outgoing, body, slowClients)
  body.pipe(sink)
  // A client should not wait for the head until there is something of the body. HTTP/2 never does.
  if (!sink.hasWritten && outgoing instanceof ServerResponse) outgoing.flushHeaders()
}

class OutgoingSink implements BodySink {
  readonly #outgoing: Outgoing
  readonly #source: BodySource
  readonly #slowClients: SlowClients
  hasWritten = false

  constructor(outgoing: Outgoing, source: BodySource, slowClients: SlowClients) {
    this.#outgoing = outgoing
    this.#source = source
    this.#slowClients = slowClients
  }

  write(chunk: Buffer): boolean {
    this.hasWritten = true
    // Who has gone takes nothing more, and the source is being told.
    if (hasGone(this.#outgoing)) return false
    if (writeTo(this.#outgoing, chunk)) return true
    giveUpIfStalled(this.#outgoing, this.#slowClients)
    this.#outgoing.once('drain', () => this.#source.resume())
    return false
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    this.hasWritten = true
    const outgoing = this.#outgoing
    if (hasGone(outgoing)) return
    if (trailers !== undefined) addTrailers(outgoing, trailers)
    if (chunk === undefined) outgoing.end()
    else if (chunk.length <= JOINED_BYTES_MAX) outgoing.end(chunk.toString('latin1'), 'latin1')
    else outgoing.end(chunk)
    giveUpIfStalled(outgoing, this.#slowClients)
  }

  fail(): void {
    this.hasWritten = true
    cutOff(this.#outgoing)
  }
}

/** The two have the same method with different overloads. */
function writeTo(outgoing: ServerResponse | Http2ServerResponse, chunk: Buffer): boolean {
  return outgoing instanceof ServerResponse ? outgoing.write(chunk) : outgoing.write(chunk)
}

function addTrailers(outgoing: Outgoing, trailers: HeaderList): void {
  // Without chunks there is no place for them; HTTP/1 leaves them out by itself.
  const fields: Record<string, string> = Object.create(null)
  for (let at = 0; at < trailers.length; at += 2) {
    fields[trailers[at] as string] = trailers[at + 1] as string
  }
  outgoing.addTrailers(fields)
}
