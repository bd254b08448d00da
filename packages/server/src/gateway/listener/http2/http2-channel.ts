/** A request over HTTP/2, as node:http2 hands it over. */

import {
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Stream,
} from 'node:http2'
import type { BodySink, BodySource, GatewayResponse, HeaderList } from '../../message.ts'
import { refusal } from '../../refusal.ts'
import type { ArrivingBytes, Channel } from '../channel.ts'
import type { ClientRequest } from '../client-request.ts'
import type { Connection } from '../connections.ts'
import type { SlowClients } from '../slow-clients.ts'
import { IncomingBytes } from './incoming-bytes.ts'
import { ResponseWatch } from './response-watch.ts'

export interface Http2ChannelOptions {
  readonly slowClients: SlowClients
  readonly sendMs: number
  /** Called for each frame of the body of the request. */
  onFrame(bytes: number): void
}

export class Http2Channel implements Channel {
  readonly #incoming: Http2ServerRequest
  readonly #outgoing: Http2ServerResponse
  readonly #watch: ResponseWatch
  readonly #onFrame: (bytes: number) => void

  constructor(
    incoming: Http2ServerRequest,
    outgoing: Http2ServerResponse,
    { slowClients, sendMs, onFrame }: Http2ChannelOptions,
  ) {
    this.#onFrame = onFrame
    this.#incoming = incoming
    this.#outgoing = outgoing
    this.#watch = new ResponseWatch(outgoing, slowClients, sendMs)
  }

  /** The response does not say so itself. */
  get isGone(): boolean {
    return this.#outgoing.stream.destroyed
  }

  /** To be told of every request; it hears of its end. */
  follow(request: ClientRequest, connection: Connection): void {
    const outgoing = this.#outgoing
    connection.live.add(request)
    outgoing.once('close', () => {
      connection.live.delete(request)
      request.end(!outgoing.writableEnded || outgoing.stream?.aborted === true)
    })
  }

  sendContinue(): void {
    this.#outgoing.writeContinue()
  }

  sendHints(link: string): void {
    try {
      this.#outgoing.writeEarlyHints({ link })
    } catch {
      // A hint that is not well-formed is none; the answer still comes.
    }
  }

  arriving(): ArrivingBytes {
    return new IncomingBytes(this.#incoming.stream, this.#onFrame)
  }

  send(request: ClientRequest, response: GatewayResponse): void {
    const outgoing = this.#outgoing
    if (this.isGone) return
    let { body } = response
    try {
      this.#writeHead(request, response)
    } catch {
      // What the upstream sent cannot be said in this protocol.
      if (outgoing.headersSent) {
        outgoing.destroy()
        return
      }
      for (const name of outgoing.getHeaderNames()) outgoing.removeHeader(name)
      const problem = refusal(502, 'The upstream gave no valid answer.')
      body = problem.body
      this.#writeHead(request, problem)
    }
    request.isHeadSent = true
    if (body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body)) {
      body.pipe(new OutgoingSink(outgoing, body, this.#watch))
      return
    }
    if (typeof body === 'string') outgoing.end(body, 'latin1')
    else outgoing.end(body ?? '')
    this.#watch.watch()
  }

  cutOff(): void {
    cutOff(this.#outgoing)
  }

  #writeHead({ hasBody }: ClientRequest, { status, headers }: GatewayResponse): void {
    const outgoing = this.#outgoing
    const { stream }: { stream: ServerHttp2Stream } = outgoing
    const isUnread = hasBody && !this.#incoming.stream.readableEnded
    if (isUnread) outgoing.once('finish', () => stream.close(constants.NGHTTP2_NO_ERROR))
    for (let at = 0; at < headers.length; at += 2) {
      outgoing.appendHeader(headers[at] as string, headers[at + 1] as string)
    }
    outgoing.writeHead(status)
  }
}

function cutOff({ stream }: Http2ServerResponse): void {
  stream.close(constants.NGHTTP2_INTERNAL_ERROR)
}

class OutgoingSink implements BodySink {
  readonly #outgoing: Http2ServerResponse
  readonly #source: BodySource
  readonly #watch: ResponseWatch
  /** Also then pieces come: the rest of what the source has read. */
  #isWaiting = false

  constructor(outgoing: Http2ServerResponse, source: BodySource, watch: ResponseWatch) {
    this.#outgoing = outgoing
    this.#source = source
    this.#watch = watch
  }

  write(chunk: Buffer): boolean {
    // Who has gone takes nothing more, and the source is being told.
    if (this.#outgoing.stream.destroyed) return false
    if (this.#outgoing.write(chunk)) return true
    if (!this.#isWaiting) this.#wait()
    return false
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    const outgoing = this.#outgoing
    if (outgoing.stream.destroyed) return
    if (trailers !== undefined) addTrailers(outgoing, trailers)
    if (chunk === undefined) outgoing.end()
    else outgoing.end(chunk)
    this.#watch.watch()
  }

  fail(): void {
    cutOff(this.#outgoing)
  }

  #wait(): void {
    this.#isWaiting = true
    this.#watch.watch()
    this.#outgoing.once('drain', () => {
      this.#watch.forget()
      this.#isWaiting = false
      this.#source.resume()
    })
  }
}

function addTrailers(outgoing: Http2ServerResponse, trailers: HeaderList): void {
  const fields: Record<string, string> = Object.create(null)
  for (let at = 0; at < trailers.length; at += 2) {
    fields[trailers[at] as string] = trailers[at + 1] as string
  }
  outgoing.addTrailers(fields)
}
