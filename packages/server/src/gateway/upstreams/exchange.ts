/**
 * One request on its way to an upstream and the answer on its way back. The answer is handed over
 * as soon as its head is there; its body flows as fast as the client takes it. Either side that
 * goes away takes the other with it.
 *
 * Sends again only where nothing can have happened twice: no byte of the request was written; or
 * the method is idempotent, there is no body, and the connection broke before any byte of an
 * answer. https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
 */

import type { Duplex, Readable } from 'node:stream'
import {
  type BodySink,
  type BodySource,
  type GatewayRequest,
  type GatewayResponse,
  type HeaderList,
  responseOf,
} from '../message.ts'
import { refusal } from '../refusal.ts'
import type { AnswerHandler, Connection, Progress } from './http1/connection.ts'
import type { AnswerHead } from './http1/read-head.ts'
import type { Place, Visitor } from './places.ts'
import { cleanResponseHead, cleanTrailers, upgradeHead } from './response-head.ts'
import type { Target } from './target.ts'
import { isBroken, isOfRequest, upstreamProblem } from './upstream-problem.ts'

export interface Attempts {
  /** Another target than those that were tried, with room; undefined where there is none. */
  next(tried: readonly Target[], client: string): Target | undefined
  readonly retries: number
}

/** What is kept of a body that nobody takes yet. */
const HELD_BYTES_MAX = 64 * 1_024

const nothing = Buffer.alloc(0)

const idempotentMethods: ReadonlySet<string> = new Set([
  ...['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'QUERY', 'PROPFIND'],
])

export function exchange(
  request: GatewayRequest,
  body: Buffer | Readable | null,
  target: Target,
  attempts: Attempts,
): Promise<GatewayResponse> {
  return new Promise((resolve) => {
    const one = new Exchange(request, body, attempts, resolve)
    // Also where the client got another answer, or what nobody takes would be kept for ever.
    request.onEnd(() => one.abort())
    one.send(target)
  })
}

class Exchange implements AnswerHandler, BodySource, Visitor {
  readonly #request: GatewayRequest
  readonly #attempts: Attempts
  readonly #resolve: (response: GatewayResponse) => void
  readonly #tried: Target[] = []
  readonly #body: Buffer | Readable | null
  #target: Target | undefined
  #place: Place | undefined
  #connection: Connection | undefined
  #response: GatewayResponse | undefined
  #isDone = false
  #isAborted = false
  #sink: BodySink | undefined
  #held: Buffer[] = []
  #heldBytes = 0
  #trailers: HeaderList | undefined
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
    this.#connection = undefined
    this.#isDone = false
    this.#place = target.places.take(this.#request.client, this, this.#request.isUrgent)
    if (this.#place.isConnected) this.hasConnection()
  }

  hasConnection(): void {
    const { method, target, headers, bodyBytes, upgrade } = this.#request
    const outgoing = { method, target, headers, body: this.#body, bodyBytes, upgrade }
    const { pool } = this.#target as Target
    // Where one connection was dead though it seemed alive, so may be all that are as old.
    const isAgain = this.#tried.length > 1
    const connection = isAgain ? pool.sendApart(outgoing, this) : pool.send(outgoing, this)
    // One that has failed at once has told so already, and another one may be under way.
    if (!connection.isGone) this.#connection = connection
  }

  hasWaitedTooLong(): void {
    this.#leaveTarget()
    this.#refuse(refusal(503, 'The upstream has too many requests.', ['retry-after', '1']))
  }

  abort(): void {
    this.#isAborted = true
    if (this.#isDone || this.#place === undefined) return
    if (this.#place.isConnected) {
      this.#connection?.abort(clientGone())
      return
    }
    // It waits for a connection, which is for somebody else now.
    this.#leaveTarget()
    this.#refuse(upstreamProblem(clientGone()))
  }

  whole(bytesMax: number): Buffer | undefined {
    const isWhole = this.#isDone && !this.#hasFailed && this.#trailers === undefined
    if (!isWhole || this.#heldBytes > bytesMax) return undefined
    const [first = nothing, ...others] = this.#held
    return others.length === 0 ? first : Buffer.concat(this.#held)
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
    if (takesMore) this.#connection?.resume()
    else this.#connection?.pause()
  }

  resume(): void {
    this.#connection?.resume()
  }

  onInterim({ status, headers }: AnswerHead): void {
    this.#request.inform(status, headers)
  }

  onHead(head: AnswerHead): void {
    const { status } = head
    this.#target?.hasAnswered(status >= 500)
    const response = responseOf(status, cleanResponseHead(head), this)
    response.statusText = head.statusText
    this.#response = response
    this.#resolve(response)
  }

  onData(chunk: Buffer): boolean {
    if (this.#sink !== undefined) return this.#sink.write(chunk)
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    return this.#heldBytes <= HELD_BYTES_MAX
  }

  onEnd(trailers: HeaderList | undefined): void {
    this.#isDone = true
    this.#trailers = trailers && cleanTrailers(trailers)
    this.#leaveTarget()
    this.#dropBody()
    this.#sink?.end(undefined, this.#trailers)
  }

  onSwitched(head: AnswerHead, socket: Duplex): void {
    this.#isDone = true
    this.#target?.hasAnswered(false)
    this.#leaveTarget()
    // Until somebody takes it, its errors are nobody's.
    socket.on('error', () => socket.destroy())
    const response = responseOf(head.status, upgradeHead(head.headers), undefined)
    response.tunnel = socket
    this.#resolve(response)
  }

  onError(error: Error, progress: Progress): void {
    // What the client did wrong is not held against the target.
    const isClients = this.#isAborted || errorOf(this.#body) === error || isOfRequest(error)
    if (!isClients) this.#target?.hasAnswered(true)
    this.#isDone = true
    this.#leaveTarget()
    if (this.#response !== undefined) {
      this.#hasFailed = true
      this.#held = []
      this.#dropBody()
      // Nothing of the response was sent before there is a sink, so another one can be.
      if (this.#sink === undefined) Object.assign(this.#response, upstreamProblem(error))
      else this.#sink.fail()
      return
    }
    const mayGoOn = !isClients && this.#maySendAgain(error, progress)
    const next = mayGoOn ? this.#nextTarget() : undefined
    if (next === undefined) this.#refuse(upstreamProblem(error))
    else this.send(next)
  }

  #maySendAgain(error: Error, { isSent, isAnswered }: Progress): boolean {
    if (!isSent) return true
    const isSafe = idempotentMethods.has(this.#request.method) && this.#body === null
    return isSafe && !isAnswered && isBroken(error)
  }

  #nextTarget(): Target | undefined {
    if (this.#tried.length > this.#attempts.retries) return undefined
    // With one target only, a connection that was closed while idle deserves another one.
    const { client } = this.#request
    return this.#attempts.next(this.#tried, client) ?? this.#attempts.next([], client)
  }

  #refuse(response: GatewayResponse): void {
    this.#isDone = true
    this.#dropBody()
    this.#resolve(response)
  }

  /** What was not sent of it is nobody's now. */
  #dropBody(): void {
    if (this.#body !== null && !Buffer.isBuffer(this.#body)) this.#body.destroy()
  }

  #leaveTarget(): void {
    const place = this.#place
    this.#target = undefined
    this.#connection = undefined
    this.#place = undefined
    place?.leave()
  }
}

function errorOf(body: Buffer | Readable | null): Error | null {
  return body === null || Buffer.isBuffer(body) ? null : body.errored
}

function clientGone(): Error {
  return Object.assign(new Error('the client has gone'), { code: 'TIDEGATE_CLIENT_GONE' })
}
