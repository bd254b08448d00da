/** A request that `node:http` has read and the response that it writes. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Body, BodySink } from '../../body/body.ts'
import type { BodyErrorCode } from '../../body/body-error.ts'
import { fieldOf, type HeaderList } from '../../header-list.ts'
import type { GatewayResponse } from '../../message.ts'
import { refusal } from '../../refusal.ts'
import type { BadHead, RequestHead } from '../../request-head.ts'
import type { Channel, ChannelRequest } from '../channel.ts'
import { asksToPersist, isClear } from '../http1/framing.ts'
import { closeAfterReading } from '../http1/lingering.ts'
import { endingOf, wholeBody } from '../http1/response-writer.ts'
import type { WireRequest } from '../read-request.ts'
import { NodeBody } from './node-body.ts'

/**
 * `handling`: the response is not complete. `written`: it is, but the client has not taken all of
 * it. `sent`: the kernel has taken it; a rest of the body may still be read and dropped.
 */
export type ChannelState = 'handling' | 'written' | 'sent'

/** After the response. `drop` closes, and drops bytes that the client still sends meanwhile. */
type Next = 'persist' | 'close' | 'drop'

/** The connection of a channel. */
export interface ChannelOwner {
  readonly socket: Socket
  readonly isEncrypted: boolean
  /** True if connections are closed after their response. */
  readonly isDraining: boolean
  /** True if other requests of the connection wait. */
  readonly hasMore: boolean
  /** For a whole request to arrive. */
  readonly requestMsMax: number
  /** Called once the response is sent. */
  onAnswered(persists: boolean): void
  /** Called once the connection has become a tunnel. */
  onSwitched(): void
}

/** Reading a rest of a body up to this size is cheaper than a new connection. */
const DISCARDED_BYTES_MAX = 64 * 1_024

const asksToSwitch = /(^|,)\s*upgrade\s*(,|$)/i

export class NodeChannel implements Channel {
  readonly incoming: IncomingMessage
  /** Found before the request was read; here there is none. */
  readonly problem: BadHead | undefined = undefined
  readonly #outgoing: ServerResponse
  readonly #owner: ChannelOwner
  readonly #body: NodeBody
  /** When the request was read, or its turn came. */
  #startMs = performance.now()
  #request: ChannelRequest | undefined
  #state: ChannelState = 'handling'
  #next: Next = 'persist'

  constructor(incoming: IncomingMessage, outgoing: ServerResponse, owner: ChannelOwner) {
    this.incoming = incoming
    this.#outgoing = outgoing
    this.#owner = owner
    this.#body = new NodeBody(incoming)
  }

  get isClosed(): boolean {
    return this.#owner.socket.destroyed || this.#state === 'sent'
  }

  /** True if the whole body has arrived. */
  get isComplete(): boolean {
    return this.incoming.complete
  }

  get state(): ChannelState {
    return this.#state
  }

  /** Called with the request that was made of this one. */
  follow(request: ChannelRequest, wire: WireRequest, head: RequestHead | BadHead): void {
    this.#request = request
    this.#startMs = performance.now()
    if (!isClear(wire, head) || 'status' in head) {
      this.#next = 'drop'
      return
    }
    // `node:http` drops bytes behind a request for an upgrade, even if it does not switch.
    const isOnly = asksToSwitch.test(head.connection)
    const persists = !isOnly && asksToPersist(wire.version, head.connection)
    this.#next = persists ? 'persist' : 'close'
  }

  sendContinue(): void {
    if (!this.isClosed) this.#outgoing.writeContinue()
  }

  sendHints(link: string): void {
    try {
      this.#outgoing.writeEarlyHints({ link })
    } catch {
      // A malformed hint is dropped; the response still follows.
    }
  }

  body(): Body {
    return this.#body
  }

  send(request: ChannelRequest, response: GatewayResponse): void {
    if (request !== this.#request || this.isClosed) {
      response.tunnel?.destroy()
      return
    }
    request.isHeadSent = true
    if (this.#next === 'persist' && !this.#mayPersist(request)) this.#next = 'close'
    this.#outgoing.once('finish', this.#onFinish)
    try {
      this.#write(request, response)
    } catch {
      // `node:http` refuses to write a field of the upstream.
      if (this.#outgoing.headersSent) this.abort()
      else this.#write(request, refusal(502, 'The upstream gave no valid response.'))
    }
  }

  abort(): void {
    this.#owner.socket.destroy()
  }

  /** Reports that no more of the body arrives. */
  failBody(code: BodyErrorCode): void {
    this.#next = 'drop'
    this.#body.fail(code)
  }

  /** Ends a request that takes too long to arrive. */
  checkTimeouts(nowMs: number): void {
    if (this.incoming.complete || nowMs - this.#startMs <= this.#owner.requestMsMax) return
    if (this.#state !== 'handling') this.abort()
    else this.failBody('TIDEGATE_BODY_TOO_SLOW')
  }

  /** Called if `node:http` does not see the events of the socket. */
  onDrain(): void {
    this.#outgoing.emit('drain')
  }

  /** Called when the connection has closed. */
  onClose(): void {
    this.#body.fail('TIDEGATE_BODY_ABORTED')
    this.#request?.end(true)
  }

  /** False if closing is cheaper than reading the rest of the body, or if it is too late for it. */
  #mayPersist({ hasBody, bodyBytes, isWaiting }: ChannelRequest): boolean {
    if (this.#owner.isDraining) return false
    if (!hasBody || this.incoming.complete) return true
    const isSmall = bodyBytes !== undefined && bodyBytes <= DISCARDED_BYTES_MAX
    const isLate = performance.now() - this.#startMs > this.#owner.requestMsMax
    return isSmall && !isLate && !isWaiting
  }

  #write(request: ChannelRequest, response: GatewayResponse): void {
    const outgoing = this.#outgoing
    const { method, version } = request
    const text = wholeBody(response)
    const ending = text === undefined ? endingOf(response, method, version === '1.1') : 'length'
    if (ending === 'close' && this.#next === 'persist') this.#next = 'close'
    if (this.#next !== 'persist') this.#endConnection()
    const { status, statusText, body } = response
    const fields = ending === 'chunks' ? response.headers : withoutTrailer(response.headers)
    const isBodiless = method === 'HEAD' || status === 204 || status === 304
    const bytes = text ?? (Buffer.isBuffer(body) ? body : undefined)
    if (bytes !== undefined && !isBodiless && fieldOf(fields, 'content-length') === undefined) {
      fields.push('content-length', String(bytes.length))
    }
    if (statusText === '') outgoing.writeHead(status, fields)
    else outgoing.writeHead(status, statusText, fields)
    // After an expectation that was not met, `node:http` closes the connection.
    if (!outgoing.shouldKeepAlive && this.#next === 'persist') this.#next = 'close'
    if (bytes === undefined) this.#pipe(body as Body)
    else {
      this.#state = 'written'
      outgoing.end(bytes, 'latin1')
    }
  }

  #endConnection(): void {
    this.#outgoing.shouldKeepAlive = false
    const isUnread = this.#next === 'drop' || !this.incoming.complete || this.#owner.hasMore
    if (isUnread) lingerAtEnd(this.#owner.socket)
  }

  #pipe(body: Body): void {
    const outgoing = this.#outgoing
    body.pipe(
      new NodeSink(outgoing, body, {
        onEnd: () => {
          this.#state = 'written'
        },
        onFailed: () => this.#fail(),
      }),
    )
    // A client should not wait for the head until the first bytes of the body arrive.
    outgoing.flushHeaders()
  }

  /** If a body ends with its connection, only a reset shows that it is incomplete. */
  #fail(): void {
    const { socket, isEncrypted } = this.#owner
    if (this.#request?.version === '1.1' || isEncrypted) socket.destroy()
    else socket.resetAndDestroy()
  }

  readonly #onFinish = () => {
    if (this.#owner.socket.destroyed) return
    this.#state = 'sent'
    this.#request?.end(false)
    const persists = this.#next === 'persist'
    if (persists && !this.incoming.complete) this.#discard()
    else this.#owner.onAnswered(persists)
  }

  /** The connection goes on once the rest of the body is read. */
  #discard(): void {
    this.incoming.once('end', () => this.#owner.onAnswered(true))
    this.#body.discard()
  }
}

interface SinkOwner {
  onEnd(): void
  onFailed(): void
}

class NodeSink implements BodySink {
  readonly #outgoing: ServerResponse
  readonly #source: Body
  readonly #owner: SinkOwner
  /** Chunks may still come meanwhile: bytes that the source has already read. */
  #isWaiting = false

  constructor(outgoing: ServerResponse, source: Body, owner: SinkOwner) {
    this.#outgoing = outgoing
    this.#source = source
    this.#owner = owner
  }

  write(chunk: Buffer): boolean {
    const outgoing = this.#outgoing
    if (outgoing.destroyed) return false
    if (outgoing.write(chunk)) return true
    if (!this.#isWaiting) {
      this.#isWaiting = true
      outgoing.once('drain', () => {
        this.#isWaiting = false
        this.#source.resume()
      })
    }
    return false
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    const outgoing = this.#outgoing
    if (outgoing.destroyed) return
    this.#owner.onEnd()
    if (trailers !== undefined) outgoing.addTrailers(pairsOf(trailers))
    if (chunk === undefined) outgoing.end()
    else outgoing.end(chunk)
  }

  fail(): void {
    if (!this.#outgoing.writableEnded) this.#owner.onFailed()
  }
}

function pairsOf(list: HeaderList): [string, string][] {
  const pairs: [string, string][] = []
  for (let at = 0; at < list.length; at += 2) {
    pairs.push([list[at] as string, list[at + 1] as string])
  }
  return pairs
}

/** A copy, because responses that are sent many times must not change. */
function withoutTrailer(headers: HeaderList): HeaderList {
  const kept: HeaderList = []
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] !== 'trailer') kept.push(headers[at] as string, headers[at + 1] as string)
  }
  return kept
}

/** Replaces what `node:http` calls after the last response on a connection. */
function lingerAtEnd(socket: Socket): void {
  const { destroySoon } = socket
  socket.destroySoon = () => {
    socket.destroySoon = destroySoon
    closeAfterReading(socket)
  }
}
