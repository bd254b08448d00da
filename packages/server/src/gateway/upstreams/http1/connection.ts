/**
 * One connection to a server: a request at a time, and the answer to it. What comes unasked, or
 * cannot be read in one way only, ends it.
 */

import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { HeaderList } from '../../message.ts'
import { AnswerReader, type AnswerSink } from './answer-reader.ts'
import type { AnswerHead } from './read-head.ts'
import { type OutgoingRequest, type Writing, writeRequest } from './request-writer.ts'
import { invalidAnswer, type UpstreamErrorCode, upstreamError } from './upstream-error.ts'

/** Whose request it is. After `onEnd`, `onSwitched` or `onError` it hears nothing more. */
export interface AnswerHandler {
  /** Of an answer that is not final. */
  onInterim(head: AnswerHead): void
  onHead(head: AnswerHead): void
  /** False where that is enough for now, until the connection is resumed. */
  onData(chunk: Buffer): boolean
  onEnd(trailers: HeaderList | undefined): void
  /** The connection is its own now, to be read and written as a stream. */
  onSwitched(head: AnswerHead, socket: Duplex): void
  onError(error: Error, progress: Progress): void
}

export interface Progress {
  /** Whether the server may have got something of the request. */
  readonly isSent: boolean
  /** Whether a byte of an answer was there. */
  readonly isAnswered: boolean
}

export interface ConnectionTimeouts {
  readonly connect: number
  /** From the end of the request, or an answer that is not final, to the head of the answer. */
  readonly response: number
  /** Between two pieces of a body. */
  readonly idle: number
}

/** Told what becomes of it. */
export interface ConnectionOwner {
  readonly timeouts: ConnectionTimeouts
  hasBecomeIdle(connection: Connection): void
  hasGone(connection: Connection): void
}

/** Where a server does not say how long it keeps an idle connection. */
const KEEP_ALIVE_MS_DEFAULT = 4_000
const KEEP_ALIVE_MS_MAX = 600_000

/** Given up before the server does, or a request would meet a connection that is being closed. */
const KEEP_ALIVE_MARGIN_MS = 1_000

interface Due {
  readonly code: UpstreamErrorCode
  readonly message: string
}

const connectDue: Due = { code: 'UPSTREAM_CONNECT_TIMEOUT', message: 'not connected in time' }
const responseDue: Due = { code: 'UPSTREAM_RESPONSE_TIMEOUT', message: 'no answer in time' }
const idleDue: Due = { code: 'UPSTREAM_IDLE_TIMEOUT', message: 'nothing more came in time' }

export class Connection implements AnswerSink, Writing {
  readonly #owner: ConnectionOwner
  readonly #reader = new AnswerReader(this)
  #socket: Socket | undefined
  #isConnected = false
  #isGone = false
  #request: OutgoingRequest | undefined
  #handler: AnswerHandler | undefined
  #head: AnswerHead | undefined
  #isSent = false
  /** The server has taken the beginning of a request whose body is still arriving. */
  #hasBegun = false
  #isWritten = false
  #isAnswered = false
  /** The server takes nothing more, and what it said before is still to be read. */
  #isBroken = false
  /** The server does not take more of the request for now. */
  #isBlocked = false
  /** The client does not take more of the answer for now. */
  #isPaused = false
  /** More may be here already, behind the piece that is being read. */
  #mayHaveMore = false
  #dueMs = Number.POSITIVE_INFINITY
  #due: Due = connectDue

  constructor(owner: ConnectionOwner) {
    this.#owner = owner
  }

  get isGone(): boolean {
    return this.#isGone
  }

  /** To be told of everything that happens to the socket. */
  use(socket: Socket): void {
    this.#socket = socket
    this.#isDueIn(this.#owner.timeouts.connect, connectDue)
    socket.on('error', (error) => this.#fail(error))
    socket.on('end', () => this.#hasEnded())
    socket.on('close', () => this.#fail(closed()))
    this.#keepLastWord(socket)
  }

  hasConnected(): void {
    if (this.#isGone) return
    this.#isConnected = true
    if (this.#request !== undefined) this.#write(this.#request)
  }

  /** Only while it is idle, or connecting for the first time. */
  send(request: OutgoingRequest, handler: AnswerHandler): void {
    this.#handler = handler
    this.#head = undefined
    this.#isSent = false
    this.#hasBegun = false
    this.#isWritten = false
    this.#isAnswered = false
    this.#isBlocked = false
    if (this.#isConnected) this.#write(request)
    else this.#request = request
  }

  /** What has arrived; false where that is enough for now. */
  read(piece: Buffer, mayHaveMore: boolean): boolean {
    const handler = this.#handler
    if (handler === undefined || !this.#isSent) {
      this.#fail(invalidAnswer('the upstream has spoken unasked'))
      return false
    }
    this.#isAnswered = true
    this.#mayHaveMore = mayHaveMore
    try {
      const end = this.#reader.read(piece)
      // Whoever was told of it may have ended it.
      if (this.#isGone) return false
      if (this.#reader.hasSwitched) this.#switch(handler, piece.subarray(end))
      else if (this.#reader.isDone) this.#complete(end === piece.length)
      // A part of a head is no reason to wait for longer.
      else if (this.#head !== undefined) this.#wait()
    } catch (error) {
      this.#fail(error as Error)
    }
    return !this.#isPaused
  }

  resume(): void {
    if (!this.#isPaused || this.#isGone) return
    this.#isPaused = false
    this.#wait()
    this.#socket?.resume()
  }

  pause(): void {
    if (this.#handler === undefined) return
    this.#isPaused = true
    this.#wait()
    this.#socket?.pause()
  }

  /** Whoever waits for an answer hears of it. */
  abort(error: Error): void {
    this.#fail(error)
  }

  destroy(): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#socket?.destroy()
    this.#owner.hasGone(this)
  }

  /** Ends what has taken too long. */
  look(nowMs: number): void {
    if (nowMs < this.#dueMs) return
    if (this.#handler === undefined) this.destroy()
    else this.#fail(upstreamError(this.#due.code, this.#due.message))
  }

  onHead(head: AnswerHead): void {
    if (head.status >= 200) {
      this.#head = head
      this.#handler?.onHead(head)
    } else if (head.status === 101) this.#head = head
    else {
      this.#handler?.onInterim(head)
      this.#wait()
    }
  }

  onData(chunk: Buffer): void {
    // The bytes are in a buffer that the next piece is read into, of whichever connection.
    if (this.#handler?.onData(Buffer.from(chunk)) !== false) return
    this.#isPaused = true
    this.#wait()
  }

  onBegun(): void {
    this.#hasBegun = true
  }

  onWritten(): void {
    this.#isWritten = true
    this.#wait()
  }

  onBlocked(isBlocked: boolean): void {
    this.#isBlocked = isBlocked
    this.#wait()
  }

  onError(error: Error): void {
    this.#fail(error)
  }

  /**
   * A server that does not want the rest of a body answers and closes the connection. The next
   * piece that is written for it fails then, and with the socket its answer would be thrown away
   * that is here already. So all that is here is read first, which takes one turn of the loop.
   */
  #keepLastWord(socket: Socket): void {
    const destroy = socket.destroy.bind(socket)
    socket.destroy = (error) => {
      const isOfWriting = error !== undefined && 'syscall' in error && error.syscall === 'write'
      if (!isOfWriting || !this.#hasBegun || this.#isGone) return destroy(error)
      this.#isBroken = true
      setImmediate(() => setImmediate(() => destroy(error)))
      return socket
    }
  }

  #write(request: OutgoingRequest): void {
    this.#request = undefined
    this.#dueMs = Number.POSITIVE_INFINITY
    this.#reader.expect({ isHead: request.method === 'HEAD', upgrade: request.upgrade })
    try {
      this.#isSent = true
      writeRequest(this.#socket as Socket, request, this)
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  /** From now on for the server; where it is the client's turn, others see to its time. */
  #wait(): void {
    const { response, idle } = this.#owner.timeouts
    const isServersTurn = !this.#isPaused && (this.#isWritten || this.#isBlocked)
    if (!isServersTurn) this.#dueMs = Number.POSITIVE_INFINITY
    else if (this.#isBlocked || this.#head !== undefined) this.#isDueIn(idle, idleDue)
    else this.#isDueIn(response, responseDue)
  }

  #isDueIn(ms: number, due: Due): void {
    this.#dueMs = performance.now() + ms
    this.#due = due
  }

  #switch(handler: AnswerHandler, early: Buffer): void {
    const socket = this.#socket as Socket
    this.#handler = undefined
    this.#isGone = true
    this.#owner.hasGone(this)
    // Nothing is lost until somebody reads it.
    socket.pause()
    if (early.length > 0) socket.unshift(early)
    handler.onSwitched(this.#head as AnswerHead, socket)
  }

  #complete(isClean: boolean): void {
    const handler = this.#handler
    const { isPersistent = false, keepAliveMs } = this.#head ?? {}
    this.#handler = undefined
    // An answer that came before the request had ended leaves a server that still reads it.
    const hasAllSent = this.#isWritten && !this.#isBroken && this.#socket?.writableLength === 0
    if (isClean && isPersistent && hasAllSent) this.#becomeIdle(keepAliveMs)
    else this.destroy()
    handler?.onEnd(this.#reader.trailers)
  }

  #becomeIdle(keepAliveMs = KEEP_ALIVE_MS_DEFAULT + KEEP_ALIVE_MARGIN_MS): void {
    const idleMs = Math.min(keepAliveMs, KEEP_ALIVE_MS_MAX) - KEEP_ALIVE_MARGIN_MS
    // A server of such haste is as good as gone.
    if (idleMs <= 0) {
      this.destroy()
      return
    }
    this.#dueMs = performance.now() + idleMs
    if (this.#isPaused) {
      this.#isPaused = false
      this.#socket?.resume()
    }
    if (this.#mayHaveMore) this.#listen()
    this.#owner.hasBecomeIdle(this)
  }

  /** Nothing is sent before all that is here is read, or it would be the answer to that. */
  #listen(): void {
    this.#isConnected = false
    setImmediate(() => this.hasConnected())
  }

  #hasEnded(): void {
    if (this.#isGone) return
    if (this.#handler !== undefined && this.#reader.readEnd()) this.#complete(false)
    else this.#fail(closed())
  }

  #fail(error: Error): void {
    const handler = this.#handler
    const progress = { isSent: this.#isSent, isAnswered: this.#isAnswered }
    this.#handler = undefined
    this.destroy()
    handler?.onError(error, progress)
  }
}

function closed(): Error {
  return upstreamError('UPSTREAM_CLOSED', 'the upstream has closed the connection')
}
