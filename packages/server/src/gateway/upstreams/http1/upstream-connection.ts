/**
 * One connection to a server: one request at a time, and its response. Bytes that were not asked
 * for, or that could be read in two ways, close it.
 */

import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { HeaderList } from '../../header-list.ts'
import type { MessageOwner } from '../../http1/message-writer.ts'
import type { ResponseHead } from './read-response-head.ts'
import { type OutgoingRequest, writeRequest } from './request-writer.ts'
import { type ResponseEvents, ResponseReader } from './response-reader.ts'
import { invalidResponse, upstreamError } from './upstream-error.ts'

/** Receives the response to a request. `onEnd`, `onSwitched` or `onError` is the last call. */
export interface ResponseHandler {
  onInterim(head: ResponseHead): void
  onHead(head: ResponseHead): void
  /** Returns false if it is full, until the connection is resumed. */
  onData(chunk: Buffer): boolean
  onEnd(trailers: HeaderList | undefined): void
  /** The handler owns the connection from now on, and reads and writes it as a stream. */
  onSwitched(head: ResponseHead, socket: Duplex): void
  onError(error: Error, progress: Progress): void
}

export interface Progress {
  /** True if the server may have got a part of the request. */
  readonly isSent: boolean
  /** True if a byte of a response has arrived. */
  readonly isAnswered: boolean
}

export interface ConnectionTimeouts {
  readonly connect: number
  /** From the end of the request, or an interim response, to the head of the response. */
  readonly response: number
  /** Between two chunks of a body. */
  readonly idle: number
}

/** The pool that a connection belongs to. */
export interface ConnectionOwner {
  readonly timeouts: ConnectionTimeouts
  onIdle(connection: Connection): void
  onClosed(connection: Connection): void
}

/** For servers that do not declare how long they keep an idle connection; Node keeps it for 5 s. */
const KEEP_ALIVE_MS_DEFAULT = 4_000

/** Longer than proxies and NAT tables in between keep an idle connection. */
const KEEP_ALIVE_MS_MAX = 600_000

/** Closed this much earlier than the server does: a request could meet the server's close. */
const KEEP_ALIVE_MARGIN_MS = 1_000

const timeoutMessages = {
  UPSTREAM_CONNECT_TIMEOUT: 'not connected in time',
  UPSTREAM_RESPONSE_TIMEOUT: 'no response in time',
  UPSTREAM_IDLE_TIMEOUT: 'no further bytes in time',
} as const

/**
 * `connecting` ─► `idle` ⇄ `busy` ─► `closed`. `settling` is between busy and idle: bytes that the
 * socket already has are read first, or they would count as the response to the next request.
 */
type State = 'connecting' | 'idle' | 'busy' | 'settling' | 'closed'

/** The request. `blocked`: the socket is full. `broken`: a write failed, but reading goes on. */
type Sending = 'unsent' | 'writing' | 'blocked' | 'written' | 'broken'

/** The response. `waiting`: no byte of it has arrived. `paused`: the client is not ready. */
type Receiving = 'waiting' | 'reading' | 'paused'

export class Connection implements ResponseEvents, MessageOwner {
  readonly #owner: ConnectionOwner
  readonly #reader = new ResponseReader(this)
  #state: State = 'connecting'
  #sending: Sending = 'unsent'
  #receiving: Receiving = 'waiting'
  #socket: Socket | undefined
  /** A request that waits until the connection is idle. */
  #request: OutgoingRequest | undefined
  #handler: ResponseHandler | undefined
  #head: ResponseHead | undefined
  /** True if the kernel has taken the head of a request whose body is still arriving. */
  #hasBegun = false
  #deadlineMs = Number.POSITIVE_INFINITY
  #timeout: keyof typeof timeoutMessages = 'UPSTREAM_CONNECT_TIMEOUT'

  constructor(owner: ConnectionOwner) {
    this.#owner = owner
  }

  get isClosed(): boolean {
    return this.#state === 'closed'
  }

  /** Listens to the socket; its bytes come by `read`. */
  use(socket: Socket): void {
    this.#socket = socket
    this.#setDeadline(this.#owner.timeouts.connect, 'UPSTREAM_CONNECT_TIMEOUT')
    socket.on('error', (error) => this.abort(error))
    socket.on('end', () => this.#onEnd())
    socket.on('close', () => this.abort(closedByServer()))
    this.#readBeforeDestroy(socket)
  }

  onConnected(): void {
    if (this.#state === 'closed') return
    this.#state = 'idle'
    if (this.#request !== undefined) this.#write(this.#request)
  }

  /** Only while it has no request. */
  send(request: OutgoingRequest, handler: ResponseHandler): void {
    this.#handler = handler
    this.#head = undefined
    this.#sending = 'unsent'
    this.#receiving = 'waiting'
    this.#hasBegun = false
    if (this.#state === 'idle') this.#write(request)
    else this.#request = request
  }

  /** Takes bytes; returns false if the client is not ready for more. */
  read(bytes: Buffer, mayHaveMore: boolean): boolean {
    const handler = this.#handler
    if (handler === undefined || this.#sending === 'unsent') {
      this.abort(invalidResponse('the upstream sent bytes without a request'))
      return false
    }
    if (this.#receiving === 'waiting') this.#receiving = 'reading'
    try {
      const end = this.#reader.read(bytes)
      // The handler may have aborted it.
      if (this.isClosed) return false
      if (this.#reader.hasSwitched) this.#switch(handler, bytes.subarray(end))
      else if (this.#reader.isDone) this.#complete(end === bytes.length, mayHaveMore)
      // A part of a head does not extend the deadline.
      else if (this.#head !== undefined) this.#updateDeadline()
    } catch (error) {
      this.abort(error as Error)
    }
    return this.#receiving !== 'paused'
  }

  resume(): void {
    if (this.#receiving !== 'paused' || this.#state === 'closed') return
    this.#receiving = 'reading'
    this.#updateDeadline()
    this.#socket?.resume()
  }

  pause(): void {
    if (this.#handler === undefined) return
    this.#receiving = 'paused'
    this.#updateDeadline()
    this.#socket?.pause()
  }

  /** Closes the connection, and reports the error to the handler if there is a request. */
  abort(error: Error): void {
    const handler = this.#handler
    const progress = {
      isSent: this.#sending !== 'unsent',
      isAnswered: this.#receiving !== 'waiting',
    }
    this.#handler = undefined
    this.destroy()
    handler?.onError(error, progress)
  }

  destroy(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#socket?.destroy()
    this.#owner.onClosed(this)
  }

  checkTimeouts(nowMs: number): void {
    if (nowMs < this.#deadlineMs) return
    if (this.#handler === undefined) this.destroy()
    else this.abort(upstreamError(this.#timeout, timeoutMessages[this.#timeout]))
  }

  onHead(head: ResponseHead): void {
    if (head.status >= 200) {
      this.#head = head
      this.#handler?.onHead(head)
    } else if (head.status === 101) this.#head = head
    else {
      this.#handler?.onInterim(head)
      this.#updateDeadline()
    }
  }

  onData(chunk: Buffer): void {
    // The bytes are in a buffer that the next read of any connection overwrites.
    if (this.#handler?.onData(Buffer.from(chunk)) !== false) return
    this.#receiving = 'paused'
    this.#updateDeadline()
  }

  onBegun(): void {
    this.#hasBegun = true
  }

  onWritten(): void {
    this.#setSending('written')
  }

  onBlocked(isBlocked: boolean): void {
    this.#setSending(isBlocked ? 'blocked' : 'writing')
  }

  onFailed(error: Error): void {
    this.abort(error)
  }

  /**
   * A server that does not want the rest of a body responds and closes the connection. The next
   * write fails then, and destroying the socket would lose the response that has already arrived.
   * So the socket is read first, which takes one turn of the event loop.
   */
  #readBeforeDestroy(socket: Socket): void {
    const destroy = socket.destroy.bind(socket)
    socket.destroy = (error) => {
      const isOfWrite = error !== undefined && 'syscall' in error && error.syscall === 'write'
      if (!isOfWrite || !this.#hasBegun || this.isClosed) return destroy(error)
      this.#sending = 'broken'
      setImmediate(() => setImmediate(() => destroy(error)))
      return socket
    }
  }

  #write(request: OutgoingRequest): void {
    this.#state = 'busy'
    this.#sending = 'writing'
    this.#request = undefined
    this.#deadlineMs = Number.POSITIVE_INFINITY
    this.#reader.expect({ isHead: request.method === 'HEAD', upgrade: request.upgrade })
    try {
      writeRequest(this.#socket as Socket, request, this)
    } catch (error) {
      this.abort(error as Error)
    }
  }

  #setSending(sending: Sending): void {
    if (this.#sending === 'broken' || this.#sending === 'written') return
    this.#sending = sending
    this.#updateDeadline()
  }

  /** Sets a deadline only while the gateway waits for the server, not for the client. */
  #updateDeadline(): void {
    const { response, idle } = this.#owner.timeouts
    const isBlocked = this.#sending === 'blocked'
    const isWaiting = this.#receiving !== 'paused' && (isBlocked || this.#sending === 'written')
    if (!isWaiting) this.#deadlineMs = Number.POSITIVE_INFINITY
    else if (isBlocked || this.#head !== undefined) this.#setDeadline(idle, 'UPSTREAM_IDLE_TIMEOUT')
    else this.#setDeadline(response, 'UPSTREAM_RESPONSE_TIMEOUT')
  }

  #setDeadline(ms: number, timeout: keyof typeof timeoutMessages): void {
    this.#deadlineMs = performance.now() + ms
    this.#timeout = timeout
  }

  #switch(handler: ResponseHandler, early: Buffer): void {
    const socket = this.#socket as Socket
    this.#handler = undefined
    this.#state = 'closed'
    this.#owner.onClosed(this)
    // Paused until the tunnel reads it, so that no bytes are lost.
    socket.pause()
    if (early.length > 0) socket.unshift(early)
    handler.onSwitched(this.#head as ResponseHead, socket)
  }

  #complete(isClean: boolean, mayHaveMore: boolean): void {
    const handler = this.#handler
    const { isPersistent = false, keepAliveMs } = this.#head ?? {}
    this.#handler = undefined
    // A server that responds before the request has ended still reads the rest of it.
    const isAllSent = this.#sending === 'written' && this.#socket?.writableLength === 0
    if (isClean && isPersistent && isAllSent) this.#becomeIdle(mayHaveMore, keepAliveMs)
    else this.destroy()
    handler?.onEnd(this.#reader.trailers)
  }

  #becomeIdle(
    mayHaveMore: boolean,
    keepAliveMs = KEEP_ALIVE_MS_DEFAULT + KEEP_ALIVE_MARGIN_MS,
  ): void {
    const idleMs = Math.min(keepAliveMs, KEEP_ALIVE_MS_MAX) - KEEP_ALIVE_MARGIN_MS
    // The server closes it before another request can use it.
    if (idleMs <= 0) {
      this.destroy()
      return
    }
    this.#deadlineMs = performance.now() + idleMs
    if (this.#receiving === 'paused') {
      this.#receiving = 'reading'
      this.#socket?.resume()
    }
    this.#state = mayHaveMore ? 'settling' : 'idle'
    if (mayHaveMore) setImmediate(() => this.onConnected())
    this.#owner.onIdle(this)
  }

  #onEnd(): void {
    if (this.isClosed) return
    if (this.#handler !== undefined && this.#reader.readEnd()) this.#complete(false, false)
    else this.abort(closedByServer())
  }
}

function closedByServer(): Error {
  return upstreamError('UPSTREAM_CLOSED', 'the upstream has closed the connection')
}
