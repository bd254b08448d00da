/**
 * One request on its way to an upstream and the answer on its way back. The answer is handed over
 * as soon as its head is there; its body flows as fast as the client takes it. Either side that
 * goes away takes the other with it.
 *
 * Sends again only where nothing can have happened twice: no byte of the request was written; or
 * the method is idempotent, there is no body, and the connection broke before any byte of an
 * answer. https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
 */

import type { IncomingHttpHeaders } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import {
  type BodySink,
  type BodySource,
  type GatewayRequest,
  type GatewayResponse,
  responseOf,
} from '../message.ts'
import { refusal } from '../refusal.ts'
import type { Place, Visitor } from './places.ts'
import { cleanResponseHead, cleanTrailers, upgradeHead } from './response-head.ts'
import type { Target } from './target.ts'
import { isBroken, upstreamProblem } from './upstream-problem.ts'

export interface Attempts {
  /** Another target than those that were tried, with room; undefined where there is none. */
  next(tried: readonly Target[], client: string): Target | undefined
  readonly retries: number
}

/** What is kept of a body that nobody takes yet. */
const HELD_BYTES_MAX = 64 * 1_024

const idempotentMethods: ReadonlySet<string> = new Set([
  ...['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'QUERY', 'PROPFIND'],
])

type Controller = Dispatcher.DispatchController
type Options = Dispatcher.DispatchOptions & { servername: string }

export function exchange(
  request: GatewayRequest,
  body: Buffer | Readable | null,
  target: Target,
  attempts: Attempts,
): Promise<GatewayResponse> {
  return new Promise((resolve) => {
    const one = new Exchange(request, body, attempts, resolve)
    request.onEnd((isAborted) => {
      if (isAborted) one.abort()
    })
    one.send(target)
  })
}

class Exchange implements Dispatcher.DispatchHandler, BodySource, Visitor {
  readonly #request: GatewayRequest
  readonly #attempts: Attempts
  readonly #resolve: (response: GatewayResponse) => void
  readonly #tried: Target[] = []
  readonly #body: Buffer | Readable | null
  #target: Target | undefined
  #place: Place | undefined
  #controller: Controller | undefined
  /** Set with the first byte of an answer. */
  #hasByte = false
  #hasHead = false
  #isDone = false
  #isAborted = false
  #sink: BodySink | undefined
  #held: Buffer[] = []
  #heldBytes = 0
  #trailers: string[] | undefined
  #hasFailed = false

  constructor(
    request: GatewayRequest,
    body: Buffer | Readable | null,
    attempts: Attempts,
    resolve: (response: GatewayResponse) => void,
  ) {
    this.#request = request
    this.#attempts = attempts
    this.#resolve = resolve
    this.#body = body
  }

  send(target: Target): void {
    if (this.#isAborted) {
      this.#refuse(upstreamProblem(clientGone()))
      return
    }
    this.#target = target
    this.#tried.push(target)
    this.#controller = undefined
    this.#isDone = false
    this.#place = target.places.take(this.#request.client, this)
    if (this.#place.isConnected) this.hasConnection()
  }

  hasConnection(): void {
    const request = this.#request
    const target = this.#target as Target
    const options: Options = {
      path: request.target,
      method: request.method,
      headers: request.headers,
      body: this.#body,
      servername: target.serverName,
      upgrade: request.upgrade ?? null,
    }
    target.pool.dispatch(options, this)
  }

  hasWaitedTooLong(): void {
    this.#leaveTarget()
    this.#refuse(refusal(503, 'The upstream has too many requests.', ['retry-after', '1']))
  }

  abort(): void {
    this.#isAborted = true
    if (this.#isDone || this.#place === undefined) return
    if (this.#place.isConnected) {
      this.#controller?.abort(clientGone())
      return
    }
    // It waits for a connection, which is for somebody else now.
    this.#leaveTarget()
    this.#refuse(upstreamProblem(clientGone()))
  }

  pipe(sink: BodySink): void {
    this.#sink = sink
    const held = this.#held
    this.#held = []
    if (this.#hasFailed) {
      sink.fail()
      return
    }
    if (this.#isDone) {
      sink.end(held.length > 1 ? Buffer.concat(held) : held[0], this.#trailers)
      return
    }
    let takesMore = true
    for (const chunk of held) takesMore = sink.write(chunk)
    if (takesMore) this.#controller?.resume()
    else this.#controller?.pause()
  }

  resume(): void {
    if (!this.#isDone) this.#controller?.resume()
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller
    if (this.#isAborted) controller.abort(clientGone())
  }

  onResponseStarted(): void {
    this.#hasByte = true
  }

  onResponseStart(
    _controller: Controller,
    status: number,
    fields: IncomingHttpHeaders,
    statusText = '',
  ): void {
    if (status < 200) {
      this.#request.inform(status, cleanResponseHead(fields, status))
      return
    }
    this.#hasHead = true
    this.#target?.hasAnswered(status >= 500)
    const response = responseOf(status, cleanResponseHead(fields, status), this)
    response.statusText = statusText
    this.#resolve(response)
  }

  onRequestUpgrade(
    _controller: Controller,
    status: number,
    fields: IncomingHttpHeaders,
    socket: Duplex,
  ): void {
    this.#target?.hasAnswered(false)
    this.#leaveTarget()
    this.#isDone = true
    // Until somebody takes it, its errors are nobody's.
    socket.on('error', () => socket.destroy())
    const response = responseOf(status, upgradeHead(fields), undefined)
    response.tunnel = socket
    this.#resolve(response)
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#sink !== undefined) {
      if (!this.#sink.write(chunk)) controller.pause()
      return
    }
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    if (this.#heldBytes > HELD_BYTES_MAX) controller.pause()
  }

  onResponseEnd(_controller: Controller, fields: IncomingHttpHeaders | undefined): void {
    this.#leaveTarget()
    this.#isDone = true
    this.#trailers = cleanTrailers(fields)
    this.#sink?.end(undefined, this.#trailers)
  }

  onResponseError(_controller: Controller, error: Error): void {
    const wasSent = this.#controller !== undefined
    // What the client did wrong is not held against the target.
    const isClients = this.#isAborted || errorOf(this.#body) === error
    if (!isClients) this.#target?.hasAnswered(true)
    this.#leaveTarget()
    this.#isDone = true
    if (this.#hasHead) {
      this.#hasFailed = true
      this.#held = []
      this.#sink?.fail()
      return
    }
    const mayGoOn = !isClients && this.#maySendAgain(error, wasSent)
    const next = mayGoOn ? this.#nextTarget() : undefined
    if (next === undefined) this.#refuse(upstreamProblem(error))
    else this.send(next)
  }

  #maySendAgain(error: Error, wasSent: boolean): boolean {
    if (!wasSent) return true
    const isSafe = idempotentMethods.has(this.#request.method) && this.#body === null
    return isSafe && !this.#hasByte && isBroken(error)
  }

  #nextTarget(): Target | undefined {
    if (this.#tried.length > this.#attempts.retries) return undefined
    // With one target only, a connection that was closed while idle deserves another one.
    const { client } = this.#request
    return this.#attempts.next(this.#tried, client) ?? this.#attempts.next([], client)
  }

  /** What was not sent of the body is nobody's now. */
  #refuse(response: GatewayResponse): void {
    this.#isDone = true
    if (this.#body !== null && !Buffer.isBuffer(this.#body)) this.#body.destroy()
    this.#resolve(response)
  }

  #leaveTarget(): void {
    this.#target = undefined
    this.#place?.leave()
    this.#place = undefined
  }
}

function errorOf(body: Buffer | Readable | null): Error | null {
  return body === null || Buffer.isBuffer(body) ? null : body.errored
}

function clientGone(): Error {
  return Object.assign(new Error('the client has gone'), { code: 'TIDEGATE_CLIENT_GONE' })
}
