/** A request over HTTP/2, as node:http2 reads it. */

import {
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Body, BodySink } from '../../body/body.ts'
import type { HeaderList } from '../../header-list.ts'
import type { GatewayResponse } from '../../message.ts'
import { refusal } from '../../refusal.ts'
import type { Channel, ChannelRequest } from '../channel.ts'
import type { ClientRequest } from '../client-request.ts'
import type { Connection } from '../connections.ts'
import type { SlowClients } from '../slow-clients.ts'
import { IncomingBody } from './incoming-body.ts'
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

  get isClosed(): boolean {
    return this.#outgoing.stream.destroyed
  }

  /** Notifies the request of its end. To be called once. */
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
      // A malformed hint is dropped; the response still follows.
    }
  }

  body(): Body {
    return new IncomingBody(this.#incoming.stream, this.#onFrame)
  }

  send(request: ChannelRequest, response: GatewayResponse): void {
    const outgoing = this.#outgoing
    if (this.isClosed) return
    let { body } = response
    try {
      this.#writeHead(request, response)
    } catch {
      // The response cannot be expressed in HTTP/2.
      if (outgoing.headersSent) {
        outgoing.destroy()
        return
      }
      for (const name of outgoing.getHeaderNames()) outgoing.removeHeader(name)
      const problem = refusal(502, 'The upstream gave no valid response.')
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

  abort(): void {
    abort(this.#outgoing)
  }

  #writeHead({ hasBody }: ChannelRequest, { status, headers }: GatewayResponse): void {
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

function abort({ stream }: Http2ServerResponse): void {
  stream.close(constants.NGHTTP2_INTERNAL_ERROR)
}

class OutgoingSink implements BodySink {
  readonly #outgoing: Http2ServerResponse
  readonly #source: Body
  readonly #watch: ResponseWatch
  /** Chunks may still come meanwhile: bytes that the source has already read. */
  #isWaiting = false

  constructor(outgoing: Http2ServerResponse, source: Body, watch: ResponseWatch) {
    this.#outgoing = outgoing
    this.#source = source
    this.#watch = watch
  }

  write(chunk: Buffer): boolean {
    // If the client has disconnected, the source is cancelled elsewhere.
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
    abort(this.#outgoing)
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
