/**
 * A client connection that speaks HTTP/1: one request at a time is read and answered, in the order
 * of arrival. Bytes behind a request wait until its response is sent; no more of them are read than
 * one read of the socket returns.
 */

import type { Socket } from 'node:net'
import type { Body } from '../../body/body.ts'
import type { MessageOwner } from '../../http1/message-writer.ts'
import type { GatewayResponse } from '../../message.ts'
import type { BadHead } from '../../request-head.ts'
import type { Channel, ChannelRequest } from '../channel.ts'
import type { ClientRequest } from '../client-request.ts'
import type { Connection } from '../connections.ts'
import type { HeldConnections } from '../held-connections.ts'
import type { ReadRequest, WireRequest } from '../read-request.ts'
import { openTunnel } from '../tunnel.ts'
import { asksToPersist, isClear } from './framing.ts'
import { HeadReader } from './head-reader.ts'
import { IncomingBody } from './incoming-body.ts'
import { closeAfterReading } from './lingering.ts'
import { readHead, requestError } from './read-request-head.ts'
import { endingOf, wholeBody, writeArriving, writeWhole } from './response-writer.ts'

/** What a connection needs of its listener. */
export interface Http1Owner {
  readonly reader: ReadRequest
  readonly headBytesMax: number
  readonly timeouts: Http1Timeouts
  /** The connections that an overload delays. */
  readonly held: HeldConnections
  /** True if connections are closed after their current response. */
  readonly isDraining: boolean
  /** Takes a request; its channel gets the response. */
  take(request: ClientRequest): void
  onError(error: unknown): void
}

export interface Http1Timeouts {
  /** From the first byte of a head to its last, and from a new connection to its first head. */
  readonly headers: number
  /** For a whole request. */
  readonly request: number
  /** Between two requests. */
  readonly keepAlive: number
}

/** A connection of an HTTP/1 client, whatever reads it. */
export interface ServedConnection {
  /** Closes the connection, or fails the body, if it has taken too long. */
  checkTimeouts(nowMs: number): void
  /** Closes the connection if it is between two requests; if `hasServed`, not before the first. */
  closeIfIdle(hasServed: boolean): void
}

/** Reading the rest of a body up to this size is cheaper than a new connection. */
const DISCARDED_BYTES_MAX = 64 * 1_024

/** Pipelined requests that are handled before other connections get their turn: about 2 ms. */
const REQUESTS_PER_TURN = 16

/** A client that sends its next request at the last moment should not find it closed. */
const KEEP_ALIVE_MARGIN_MS = 1_000

/** Stands for a request that could not be read. */
const unread: WireRequest = {
  method: '',
  target: '/',
  fields: [],
  version: '1.1',
  authority: undefined,
  hasBody: false,
}

/**
 * `new`: waits for the first head. `handling`: a request waits for its response, or the response is
 * being written. `written`: the response is written, but the kernel has not taken all of it.
 * `sent`: the kernel has; a rest of the body may still be read and dropped. `idle`: waits for the
 * next head. `closed`: no request is read any more, also because the connection became a tunnel.
 */
type State = 'new' | 'handling' | 'written' | 'sent' | 'idle' | 'closed'

/** After the response. `drop` closes, and drops bytes that the client still sends meanwhile. */
type Next = 'persist' | 'close' | 'drop'

export class Http1Connection implements Channel, MessageOwner, ServedConnection {
  readonly #socket: Socket
  readonly #connection: Connection
  readonly #owner: Http1Owner
  readonly #heads: HeadReader
  #state: State = 'new'
  #next: Next = 'persist'
  /** When the head, or the wait for one, began. */
  #sinceMs = performance.now()
  #request: ClientRequest | undefined
  #body: IncomingBody | undefined
  /** Bytes behind the request, or of a body that is paused. */
  #kept: Buffer | undefined
  #isReading = false
  /** True while an overload delays the next request. */
  #isHeld = false

  constructor(socket: Socket, connection: Connection, owner: Http1Owner) {
    this.#socket = socket
    this.#connection = connection
    this.#owner = owner
    this.#heads = new HeadReader(owner.headBytesMax)
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('close', this.#onClose)
    socket.on('error', this.#onSocketError)
  }

  get isClosed(): boolean {
    return this.#socket.destroyed || this.#state === 'closed'
  }

  sendContinue(): void {
    if (!this.isClosed) this.#socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1')
  }

  sendHints(link: string): void {
    this.#socket.write(`HTTP/1.1 103 Early Hints\r\nlink: ${link}\r\n\r\n`, 'latin1')
  }

  body(): Body {
    if (this.#body === undefined) throw new Error('the request has no body')
    return this.#body
  }

  send(request: ChannelRequest, response: GatewayResponse): void {
    if (request !== this.#request || this.isClosed) {
      response.tunnel?.destroy()
      return
    }
    request.isHeadSent = true
    if (response.tunnel !== undefined) {
      this.#switch(request, response, response.tunnel)
      return
    }
    if (this.#next === 'persist' && !this.#mayPersist(request)) this.#next = 'close'
    const { method, version } = request
    const body = wholeBody(response)
    if (body !== undefined) {
      writeWhole(this.#socket, response, body, { method, keptSeconds: this.#keptSeconds() })
      this.onWritten()
      return
    }
    const ending = endingOf(response, method, version === '1.1')
    if (ending === 'close' && this.#next === 'persist') this.#next = 'close'
    writeArriving(this.#socket, response, { ending, keptSeconds: this.#keptSeconds() }, this)
  }

  abort(): void {
    this.#socket.destroy()
  }

  checkTimeouts(nowMs: number): void {
    if (this.#state === 'closed') return
    const waitedMs = nowMs - this.#sinceMs
    const { headers, request, keepAlive } = this.#owner.timeouts
    if (!this.#isBetween) {
      if (this.#body?.isComplete !== false || waitedMs <= request) return
      if (this.#state === 'sent') this.#socket.destroy()
      else this.#body.fail('TIDEGATE_BODY_TOO_SLOW')
    } else if (this.#heads.hasBegun) {
      if (waitedMs > Math.min(headers, request)) {
        this.#refuse(requestError(408, 'the request did not arrive in time'))
      }
    } else if (waitedMs > (this.#state === 'idle' ? keepAlive + KEEP_ALIVE_MARGIN_MS : headers)) {
      this.#socket.destroy()
    }
  }

  closeIfIdle(hasServed: boolean): void {
    const isIdle = hasServed ? this.#state === 'idle' : this.#isBetween
    if (isIdle && this.#kept === undefined && !this.#heads.hasBegun) this.#close()
  }

  onWritten(): void {
    this.#state = 'written'
    if (this.#socket.writableLength === 0) {
      this.#onSent()
      return
    }
    // Called behind all bytes that wait: a client that does not read gets no further responses.
    this.#socket.write('', (error) => {
      if (!error) this.#onSent()
    })
  }

  onFailed(): void {
    // If a body ends with its connection, only a reset shows that it is incomplete. With TLS, the
    // missing closing alert does.
    const isFramed = this.#request?.version === '1.1' || this.#connection.isEncrypted
    if (isFramed) this.#socket.destroy()
    else this.#socket.resetAndDestroy()
  }

  /** True while no request is handled. */
  get #isBetween(): boolean {
    return this.#state === 'new' || this.#state === 'idle'
  }

  readonly #onData = (bytes: Buffer) => {
    if (this.#state === 'closed') return
    this.#read(this.#kept === undefined ? bytes : Buffer.concat([this.#kept, bytes]))
  }

  /** Treats a half-close as a disconnect: no real client waits for a response after it. */
  readonly #onEnd = () => {
    if (this.#state === 'closed') return
    if (this.#heads.hasBegun) this.#refuse(requestError(400, 'the request broke off'))
    else if (this.#state === 'handling') this.#socket.destroy()
    else {
      this.#kept = undefined
      this.#socket.destroySoon()
    }
  }

  readonly #onClose = () => {
    this.#state = 'closed'
    this.#body?.fail('TIDEGATE_BODY_ABORTED')
    this.#request?.end(true)
    this.#request = undefined
  }

  readonly #onSocketError = () => this.#socket.destroy()

  /** Reads the bytes that were kept, and continues with the socket. */
  readonly #readKept = () => {
    if (this.#isReading || this.#state === 'closed' || this.#isHeld) return
    const bytes = this.#kept
    if (bytes === undefined) return
    this.#kept = undefined
    this.#socket.resume()
    this.#read(bytes)
  }

  #read(bytes: Buffer): void {
    this.#kept = undefined
    this.#isReading = true
    let at = 0
    let heads = 0
    try {
      while (at < bytes.length && this.#state !== 'closed') {
        if (this.#isBetween && !this.#isHeld && heads < REQUESTS_PER_TURN) {
          at = this.#readHead(bytes, at)
          heads += 1
        } else if (this.#body?.isFlowing === true) at = this.#readBody(this.#body, bytes, at)
        else {
          this.#kept = bytes.subarray(at)
          this.#socket.pause()
          if (this.#isBetween) setImmediate(this.#readKept)
          break
        }
      }
    } catch (error) {
      this.#onReadError(error)
    }
    this.#isReading = false
  }

  #readHead(bytes: Buffer, at: number): number {
    if (!this.#heads.hasBegun) this.#sinceMs = performance.now()
    const end = this.#heads.read(bytes, at)
    const { text } = this.#heads
    if (text !== undefined) this.#take(text)
    return end
  }

  #readBody(body: IncomingBody, bytes: Buffer, at: number): number {
    const end = body.read(bytes, at)
    // The response may have been sent before.
    if (body.isComplete && this.#state === 'sent' && this.#body === body) this.#becomeIdle()
    return end
  }

  #take(text: string): void {
    const wire = readHead(text)
    const head = this.#owner.reader.head(wire)
    const request = this.#owner.reader.request(wire, head, this, this.#connection)
    if (!isClear(wire, head) || 'status' in head) {
      this.#handle(request, undefined, 'drop')
      return
    }
    const persists = request.upgrade === undefined && asksToPersist(wire.version, head.connection)
    const body = request.hasBody ? new IncomingBody(head, this.#readKept) : undefined
    this.#handle(request, body, persists ? 'persist' : 'close')
  }

  #handle(request: ClientRequest, body: IncomingBody | undefined, next: Next): void {
    this.#state = 'handling'
    this.#next = next
    this.#request = request
    this.#body = body
    this.#owner.take(request)
  }

  /** False if closing is cheaper than reading the rest of the body, or if it is too late for it. */
  #mayPersist({ bodyBytes, isWaiting }: ChannelRequest): boolean {
    if (this.#owner.isDraining) return false
    if (this.#body?.isComplete !== false) return true
    const isSmall = bodyBytes !== undefined && bodyBytes <= DISCARDED_BYTES_MAX
    const isLate = performance.now() - this.#sinceMs > this.#owner.timeouts.request
    return isSmall && !isLate && !isWaiting
  }

  #keptSeconds(): number | undefined {
    if (this.#next !== 'persist') return undefined
    return Math.floor(this.#owner.timeouts.keepAlive / 1_000)
  }

  #onSent(): void {
    const request = this.#request
    if (request === undefined) return
    this.#state = 'sent'
    request.end(false)
    const { holdMs } = this.#connection
    this.#connection.holdMs = 0
    if (this.#next !== 'persist') {
      this.#close()
      return
    }
    if (holdMs > 0) {
      // The next request stays in the buffer of the kernel meanwhile.
      this.#socket.pause()
      this.#isHeld = true
      this.#owner.held.hold(this.#onReleased, holdMs)
    }
    if (this.#body?.isComplete === false) this.#body.discard()
    else this.#becomeIdle()
  }

  readonly #onReleased = () => {
    this.#isHeld = false
    if (this.isClosed) return
    this.#socket.resume()
    this.#readKept()
  }

  #becomeIdle(): void {
    this.#state = 'idle'
    this.#request = undefined
    this.#body = undefined
    this.#heads.forget()
    this.#sinceMs = performance.now()
    if (this.#owner.isDraining && this.#kept === undefined) this.#close()
    else this.#readKept()
  }

  #switch(
    request: ChannelRequest,
    response: GatewayResponse,
    tunnel: NonNullable<GatewayResponse['tunnel']>,
  ): void {
    const socket = this.#socket
    this.#state = 'closed'
    this.#request = undefined
    const early = this.#kept
    this.#kept = undefined
    socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
    openTunnel(socket, tunnel, response, early)
    socket.once('close', () => request.end(false))
  }

  #onReadError(error: unknown): void {
    if (!isBadHead(error)) {
      this.#owner.onError(error)
      this.#socket.destroy()
    } else if (this.#isBetween) this.#refuse(error)
    else if (this.#state === 'sent') this.#socket.destroy()
    else {
      if (this.#next === 'persist') this.#next = 'close'
      const isLarge = error.status === 431
      this.#body?.fail(isLarge ? 'TIDEGATE_TRAILERS_TOO_LARGE' : 'TIDEGATE_BODY_INVALID')
    }
  }

  /** Handles an unreadable request as any other, so that it is logged. */
  #refuse(head: BadHead): void {
    this.#heads.forget()
    const request = this.#owner.reader.request(unread, head, this, this.#connection)
    this.#handle(request, undefined, 'drop')
  }

  #close(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    const isUnread = this.#body?.isComplete === false || this.#kept !== undefined
    this.#request = undefined
    this.#kept = undefined
    if (isUnread || this.#next === 'drop') closeAfterReading(this.#socket)
    else this.#socket.destroySoon()
  }
}

function isBadHead(error: unknown): error is BadHead {
  return error instanceof Error && 'status' in error && 'detail' in error
}
