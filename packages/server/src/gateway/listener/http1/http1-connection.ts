/**
 * A connection of a client that speaks HTTP/1: one request at a time is read and answered, in the
 * order in which they come. What comes behind a request waits until that is answered; of it no more
 * is read than the system hands over at once.
 */

import type { Socket } from 'node:net'
import type { GatewayResponse } from '../../message.ts'
import type { BadHead } from '../../request-head.ts'
import type { ArrivingBytes, Channel } from '../channel.ts'
import type { ClientRequest } from '../client-request.ts'
import type { Connection } from '../connections.ts'
import type { ReadRequest, WireRequest } from '../read-request.ts'
import { openTunnel } from '../tunnel.ts'
import type { AnswerOwner } from './answer-sink.ts'
import { endingOf, wholeBody, writePieces, writeWhole } from './answer-writer.ts'
import { asksToGoOn, isClear } from './framing.ts'
import { HeadReader } from './head-reader.ts'
import { IncomingBody } from './incoming-body.ts'
import { closeAfterReading } from './lingering.ts'
import { readHead, requestError } from './read-head.ts'

/** Told what becomes of it. */
export interface Http1Owner {
  readonly reader: ReadRequest
  readonly headBytesMax: number
  readonly timeouts: Http1Timeouts
  /** Whether connections are to be given up after their answer. */
  readonly isDraining: boolean
  /** A request has come; its channel is to be given the answer. */
  take(request: ClientRequest): void
  onError(error: unknown): void
}

export interface Http1Timeouts {
  /** From the first byte of a head to its last, and from a new connection to its first head. */
  readonly headers: number
  /** For all of a request. */
  readonly request: number
  /** Between two requests. */
  readonly keepAlive: number
}

/** A rest of a body up to here is cheaper to read than a new connection is to make. */
const DISCARDED_BYTES_MAX = 64 * 1_024

/** Of requests that came in one piece, so many are answered before others have their turn. */
const REQUESTS_PER_TURN = 16

/** A client that sends its next request at the last moment should not meet a closed connection. */
const KEEP_ALIVE_MARGIN_MS = 1_000

/** What could not be read has none of this. */
const unread: WireRequest = {
  method: '',
  target: '/',
  fields: [],
  version: '1.1',
  authority: undefined,
  hasBody: false,
}

export class Http1Connection implements Channel, AnswerOwner {
  readonly #socket: Socket
  readonly #connection: Connection
  readonly #owner: Http1Owner
  readonly #heads: HeadReader
  /** When what it waits for began: a head, or all of a request. */
  #sinceMs = performance.now()
  #hasServed = false
  #request: ClientRequest | undefined
  #body: IncomingBody | undefined
  /** Whether the client knows of answers in chunks and of ones that are not final. */
  #isHttp11 = true
  /** Whether the connection goes on after the request. */
  #persists = true
  /** Whether more may come that is not to be read as a request. */
  #mayGetMore = false
  /** Whether the client was told to go on, or needs no such word. */
  #hasContinued = true
  /** What came behind the request, or of a body that nobody takes yet. */
  #kept: Buffer | undefined
  #isReading = false
  /** Until when nothing is read, while the process has no time for this client. */
  #hold: NodeJS.Timeout | undefined
  /** All of the answer is written, though the client may not have taken it. */
  #isWritten = false
  /** And now it has. */
  #isAnswered = false
  #isClosing = false

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

  get isGone(): boolean {
    return this.#socket.destroyed || this.#isClosing
  }

  sendContinue(): void {
    this.#hasContinued = true
    if (!this.isGone) this.#socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1')
  }

  sendHints(link: string): void {
    this.#socket.write(`HTTP/1.1 103 Early Hints\r\nlink: ${link}\r\n\r\n`, 'latin1')
  }

  arriving(): ArrivingBytes {
    if (this.#body === undefined) throw new Error('the request has no body')
    return this.#body
  }

  send(request: ClientRequest, response: GatewayResponse): void {
    if (request !== this.#request || this.isGone) {
      response.tunnel?.destroy()
      return
    }
    request.isHeadSent = true
    if (response.tunnel !== undefined) {
      this.#switch(request, response)
      return
    }
    this.#decideEnd(request)
    const { method } = request
    const body = wholeBody(response)
    if (body !== undefined) {
      writeWhole(this.#socket, response, body, { method, keptSeconds: this.#keptSeconds() })
      this.hasEnded()
      return
    }
    const ending = endingOf(response, method, this.#isHttp11)
    if (ending === 'close') this.#persists = false
    const keptSeconds = this.#keptSeconds()
    writePieces(this.#socket, response, { ending, keptSeconds }, this)
  }

  cutOff(): void {
    this.#socket.destroy()
  }

  /** Ends what has taken too long. */
  look(nowMs: number): void {
    if (this.#isClosing) return
    const waitedMs = nowMs - this.#sinceMs
    const { headers, request, keepAlive } = this.#owner.timeouts
    if (this.#request !== undefined) {
      if (this.#body?.isComplete !== false || waitedMs <= request) return
      if (this.#isAnswered) this.#socket.destroy()
      else this.#body.breakOff('TIDEGATE_BODY_TOO_SLOW')
    } else if (this.#heads.hasBegun) {
      if (waitedMs > Math.min(headers, request)) {
        this.#refuse(requestError(408, 'the request did not arrive in time'))
      }
    } else if (waitedMs > (this.#hasServed ? keepAlive + KEEP_ALIVE_MARGIN_MS : headers)) {
      this.#socket.destroy()
    }
  }

  closeIfIdle(): void {
    const isBetween = this.#request === undefined && this.#kept === undefined
    if (isBetween && !this.#heads.hasBegun) this.#close()
  }

  hasEnded(): void {
    this.#isWritten = true
    if (this.#socket.writableLength === 0) {
      this.#complete()
      return
    }
    // Behind all that waits; who does not read cannot ask for more and more.
    this.#socket.write('', (error) => {
      // Who has gone has not taken it, and what it sent behind this is not asked for.
      if (error) return
      this.#complete()
    })
  }

  hasFailed(): void {
    // Where a body ends with its connection, only a reset tells that it breaks off. With TLS, the
    // word that it ends is missing.
    if (this.#isHttp11 || this.#connection.isEncrypted) this.#socket.destroy()
    else this.#socket.resetAndDestroy()
  }

  readonly #onData = (piece: Buffer) => {
    if (this.#isClosing) return
    this.#read(this.#kept === undefined ? piece : Buffer.concat([this.#kept, piece]))
  }

  /** Who ends its side has gone: to wait for an answer so, nobody does. */
  readonly #onEnd = () => {
    if (this.#isClosing) return
    if (this.#heads.hasBegun) this.#refuse(requestError(400, 'the request broke off'))
    else if (this.#isWritten || this.#request === undefined) {
      this.#kept = undefined
      this.#socket.destroySoon()
    } else this.#socket.destroy()
  }

  readonly #onClose = () => {
    this.#isClosing = true
    clearTimeout(this.#hold)
    this.#body?.breakOff('TIDEGATE_BODY_ABORTED')
    this.#request?.end(true)
    this.#request = undefined
  }

  readonly #onSocketError = () => this.#socket.destroy()

  /** What was kept, and then what comes. */
  readonly #readOn = () => {
    if (this.#isReading || this.#isClosing || this.#hold !== undefined) return
    const piece = this.#kept
    if (piece === undefined) return
    this.#kept = undefined
    this.#socket.resume()
    this.#read(piece)
  }

  #read(piece: Buffer): void {
    this.#kept = undefined
    this.#isReading = true
    let at = 0
    let heads = 0
    try {
      while (at < piece.length && !this.#isClosing) {
        if (this.#request === undefined && !this.#hold && heads < REQUESTS_PER_TURN) {
          at = this.#readHead(piece, at)
          heads += 1
        } else if (this.#body?.isFlowing === true) at = this.#readBody(this.#body, piece, at)
        else {
          this.#kept = piece.subarray(at)
          this.#socket.pause()
          if (this.#request === undefined) setImmediate(this.#readOn)
          break
        }
      }
    } catch (error) {
      this.#fail(error)
    }
    this.#isReading = false
  }

  #readHead(piece: Buffer, at: number): number {
    if (!this.#heads.hasBegun) this.#sinceMs = performance.now()
    const end = this.#heads.read(piece, at)
    const { text } = this.#heads
    if (text !== undefined) this.#take(text)
    return end
  }

  #readBody(body: IncomingBody, piece: Buffer, at: number): number {
    const end = body.read(piece, at)
    // The answer may have been waiting for that only.
    if (body.isComplete && this.#isAnswered && this.#body === body) this.#goOn()
    return end
  }

  #take(text: string): void {
    const wire = readHead(text)
    const { version } = wire
    const head = this.#owner.reader.head(wire)
    const request = this.#owner.reader.request(wire, head, this, this.#connection)
    this.#request = request
    this.#isWritten = false
    this.#isAnswered = false
    this.#isHttp11 = version === '1.1'
    this.#hasContinued = !request.isWaiting
    this.#mayGetMore = !isClear(wire, head)
    if (this.#mayGetMore || 'status' in head) {
      this.#persists = false
      this.#body = undefined
    } else {
      this.#persists = request.upgrade === undefined && asksToGoOn(version, head.connection)
      this.#body = request.hasBody ? new IncomingBody(head, this.#readOn) : undefined
    }
    this.#owner.take(request)
  }

  /** How an answer ends, and whether the connection does with it. */
  #decideEnd({ bodyBytes }: ClientRequest): void {
    if (this.#owner.isDraining) this.#persists = false
    if (this.#body?.isComplete !== false) return
    const isMuch = bodyBytes === undefined || bodyBytes > DISCARDED_BYTES_MAX
    // What had no time left to arrive is not waited for again.
    const isLate = performance.now() - this.#sinceMs > this.#owner.timeouts.request
    if (isMuch || isLate || !this.#hasContinued) this.#persists = false
  }

  #keptSeconds(): number | undefined {
    if (!this.#persists) return undefined
    return Math.floor(this.#owner.timeouts.keepAlive / 1_000)
  }

  /** The answer is with the system, which delivers it. */
  #complete(): void {
    const request = this.#request
    if (request === undefined) return
    this.#isAnswered = true
    request.end(false)
    if (this.#persists && request.holdMs > 0) this.#holdFor(request.holdMs)
    if (!this.#persists) this.#close()
    else if (this.#body?.isComplete === false) this.#body.discard()
    else this.#goOn()
  }

  /** Leaves the next request to the kernel's buffer for this time. */
  #holdFor(holdMs: number): void {
    this.#socket.pause()
    this.#hold = setTimeout(() => {
      this.#hold = undefined
      this.#socket.resume()
      this.#readOn()
    }, holdMs).unref()
  }

  #goOn(): void {
    this.#request = undefined
    this.#body = undefined
    this.#heads.forget()
    this.#hasServed = true
    this.#sinceMs = performance.now()
    if (this.#owner.isDraining && this.#kept === undefined) this.#close()
    else this.#readOn()
  }

  #switch(request: ClientRequest, response: GatewayResponse): void {
    const { tunnel } = response
    if (tunnel === undefined) return
    const socket = this.#socket
    this.#isClosing = true
    this.#request = undefined
    const early = this.#kept
    this.#kept = undefined
    socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
    openTunnel(socket, tunnel, response, early)
    socket.once('close', () => request.end(false))
  }

  #fail(error: unknown): void {
    if (!isBadHead(error)) {
      this.#owner.onError(error)
      this.#socket.destroy()
    } else if (this.#request === undefined) this.#refuse(error)
    else if (this.#isAnswered) this.#socket.destroy()
    else {
      this.#persists = false
      const isLarge = error.status === 431
      this.#body?.breakOff(isLarge ? 'TIDEGATE_TRAILERS_TOO_LARGE' : 'TIDEGATE_BODY_INVALID')
    }
  }

  /** Like any other request, so that it is logged as one. */
  #refuse(head: BadHead): void {
    const request = this.#owner.reader.request(unread, head, this, this.#connection)
    this.#heads.forget()
    this.#request = request
    this.#body = undefined
    this.#isWritten = false
    this.#isAnswered = false
    this.#persists = false
    this.#mayGetMore = true
    this.#owner.take(request)
  }

  #close(): void {
    if (this.#isClosing) return
    this.#isClosing = true
    const isUnread = this.#body?.isComplete === false || this.#kept !== undefined
    this.#request = undefined
    this.#kept = undefined
    if (isUnread || this.#mayGetMore) closeAfterReading(this.#socket)
    else this.#socket.destroySoon()
  }
}

function isBadHead(error: unknown): error is BadHead {
  return error instanceof Error && 'status' in error && 'detail' in error
}
