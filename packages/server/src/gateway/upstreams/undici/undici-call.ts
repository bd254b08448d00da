/** One request over undici and the response to it, reported as the gateway's own client does. */

import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Client, Dispatcher } from 'undici'
import { GrowableBuffer } from '../../body/growable-buffer.ts'
import type { HeaderList } from '../../header-list.ts'
import { headOf, type ResponseHead } from '../http1/read-response-head.ts'
import { isWritableTarget, type OutgoingRequest, unwritable } from '../http1/request-writer.ts'
import { checkSwitch, INTERIM_RESPONSES_MAX } from '../http1/response-reader.ts'
import type { ResponseHandler } from '../http1/upstream-connection.ts'
import { invalidResponse, upstreamError } from '../http1/upstream-error.ts'
import type { UpstreamCall } from '../upstream-client.ts'
import { bodyStream } from './body-stream.ts'
import { errorOf } from './undici-error.ts'

/** Chunks of this size are passed on without a copy. */
const CHUNK_BYTES_MIN = 16 * 1_024

type Controller = Dispatcher.DispatchController

/** A connection of undici, idle or with one request. */
export interface UndiciConnection {
  readonly client: Client
  /** Undefined until undici connects. */
  socket: Socket | undefined
}

export class UndiciCall implements Dispatcher.DispatchHandler, UpstreamCall {
  readonly #connection: UndiciConnection
  readonly #request: OutgoingRequest
  readonly #handler: ResponseHandler
  readonly #onOver: (isReusable: boolean) => void
  #controller: Controller | undefined
  #interimResponses = 0
  #isAnswered = false
  #isPersistent = false
  /** Bytes of the body that are not passed on yet. */
  readonly #held = new GrowableBuffer()
  #isScheduled = false
  /** When the last bytes of the response arrived; undefined before its head. */
  #sinceMs: number | undefined
  #isPaused = false
  #isOver = false
  #isClosed = false

  /** `onOver` is called when the connection has no request any more, or is to be closed. */
  constructor(
    connection: UndiciConnection,
    request: OutgoingRequest,
    handler: ResponseHandler,
    onOver: (isReusable: boolean) => void,
  ) {
    this.#connection = connection
    this.#request = request
    this.#handler = handler
    this.#onOver = onOver
  }

  get isClosed(): boolean {
    return this.#isClosed || (this.#isOver && !this.#connection.client.stats.connected)
  }

  /** `serverName` goes with every request: undici would take it from the Host of the client. */
  dispatch(serverName: string): void {
    const { method, target, headers, body, bodyBytes, upgrade } = this.#request
    // undici accepts bytes beyond ASCII.
    if (!isWritableTarget(target)) {
      this.abort(unwritable('the target of the request'))
      return
    }
    const isArriving = body !== null && !Buffer.isBuffer(body)
    const length = isArriving && bodyBytes !== undefined ? ['content-length', `${bodyBytes}`] : []
    const options: Dispatcher.DispatchOptions & { servername: string } = {
      path: target,
      method,
      headers: [...headers, ...length],
      body: isArriving ? bodyStream(body, bodyBytes) : body,
      upgrade: upgrade ?? null,
      servername: serverName,
    }
    this.#connection.client.dispatch(options, this)
  }

  pause(): void {
    this.#isPaused = true
    if (!this.#isOver) this.#controller?.pause()
  }

  resume(): void {
    if (this.#isOver) return
    this.#isPaused = false
    this.#sinceMs = performance.now()
    this.#flush()
    if (!this.#isPaused) this.#controller?.resume()
  }

  abort(error: Error): void {
    if (this.#isOver) return
    this.#end()
    this.#handler.onError(error, this.#progress())
  }

  destroy(): void {
    this.#end()
  }

  /** Aborts a response of which no bytes arrive. The time of a slow client does not count. */
  checkTimeout(nowMs: number, idleMs: number): void {
    if (this.#sinceMs === undefined || this.#isPaused || nowMs - this.#sinceMs <= idleMs) return
    this.abort(upstreamError('UPSTREAM_IDLE_TIMEOUT', 'no further bytes in time'))
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller
  }

  onResponseStarted(): void {
    this.#isAnswered = true
  }

  onResponseStart(
    controller: Controller,
    status: number,
    _fields: IncomingHttpHeaders,
    statusText = '',
  ): void {
    if (this.#isOver) return
    const head = this.#read(controller, status, statusText)
    if (head === undefined) return
    if (status >= 200) {
      this.#isPersistent = head.isPersistent
      this.#sinceMs = performance.now()
      this.#handler.onHead(head)
      return
    }
    this.#interimResponses += 1
    if (this.#interimResponses <= INTERIM_RESPONSES_MAX) this.#handler.onInterim(head)
    else this.abort(invalidResponse('the response has too many interim responses'))
  }

  /** undici reports each chunk of a body. Small chunks of one read are passed on together. */
  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.#isOver || chunk.length === 0) return
    this.#sinceMs = performance.now()
    this.#held.add(chunk)
    if (this.#isPaused || this.#isScheduled) return
    if (this.#held.length >= CHUNK_BYTES_MIN) this.#flush()
    else {
      this.#isScheduled = true
      queueMicrotask(this.#onTurn)
    }
  }

  /**
   * undici decides after this call whether it keeps the connection. The handler is called after
   * that, because it may send the next request at once.
   */
  onResponseEnd(controller: Controller): void {
    const trailers = listOf(controller.rawTrailers)
    queueMicrotask(() => {
      this.#isPaused = false
      this.#flush()
      if (this.#isOver) return
      this.#isOver = true
      this.#onOver(this.#isReusable())
      this.#handler.onEnd(trailers.length === 0 ? undefined : trailers)
    })
  }

  onRequestUpgrade(
    controller: Controller,
    status: number,
    _fields: IncomingHttpHeaders,
    socket: Duplex,
  ): void {
    if (this.#isOver) {
      socket.destroy()
      return
    }
    try {
      const head = headOf(status, '', listOf(controller.rawHeaders))
      checkSwitch(head, this.#request.upgrade)
      socket.pause()
      // The socket belongs to the handler from now on.
      this.#connection.socket = undefined
      this.#end()
      this.#handler.onSwitched(head, socket)
    } catch (error) {
      this.abort(error as Error)
    }
  }

  onResponseError(_controller: Controller | undefined, error: Error): void {
    this.#flush()
    this.abort(errorOf(error))
  }

  readonly #onTurn = () => {
    this.#isScheduled = false
    this.#flush()
  }

  #flush(): void {
    if (this.#isOver || this.#isPaused || this.#held.length === 0) return
    if (!this.#handler.onData(this.#held.take())) this.pause()
  }

  #read(controller: Controller, status: number, statusText: string): ResponseHead | undefined {
    try {
      // undici decodes the text as UTF-8, which loses bytes beyond ASCII.
      const text = ascii.test(statusText) ? statusText : ''
      return headOf(status, text, listOf(controller.rawHeaders))
    } catch (error) {
      this.abort(error as Error)
      return undefined
    }
  }

  /** Until the server has taken the whole request, the next one would wait behind it. */
  #isReusable(): boolean {
    const { client, socket } = this.#connection
    return this.#isPersistent && client.stats.connected && socket?.writableLength === 0
  }

  #progress() {
    return { isSent: this.#controller !== undefined, isAnswered: this.#isAnswered }
  }

  #end(): void {
    this.#isOver = true
    this.#isClosed = true
    this.#onOver(false)
  }
}

const ascii = /^[\t\x20-\x7e]*$/
const blanks = /^[ \t]+|[ \t]+$/g

/** Names are in lower case. Text is latin1, as it came over the wire. */
function listOf(raw: Controller['rawHeaders']): HeaderList {
  if (!Array.isArray(raw)) return []
  return raw.map((text, at) => {
    const decoded = typeof text === 'string' ? text : text.toString('latin1')
    return at % 2 === 0 ? decoded.toLowerCase() : decoded.replace(blanks, '')
  })
}
