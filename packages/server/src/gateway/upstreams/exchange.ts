/**
 * One request on its way to an upstream, and its response on the way back. The response is returned
 * as soon as its head has arrived; its body flows as fast as the client reads. If either side
 * closes, the other is closed too.
 *
 * A request is retried only if it cannot have an effect twice: no byte of it was written; or its
 * method is idempotent, it has no body, and the connection broke before the first byte of a
 * response. https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
 */

import type { Duplex } from 'node:stream'
import type { Body } from '../body/body.ts'
import { HeldBody } from '../body/held-body.ts'
import type { HeaderList } from '../header-list.ts'
import { type GatewayRequest, type GatewayResponse, responseOf } from '../message.ts'
import { refusal } from '../refusal.ts'
import type { Slot, Waiter } from './connection-slots.ts'
import type { ResponseHead } from './http1/read-response-head.ts'
import type { Progress, ResponseHandler } from './http1/upstream-connection.ts'
import { cleanResponseHead, cleanTrailers, upgradeHead } from './response-head.ts'
import type { Target } from './target.ts'
import type { UpstreamCall } from './upstream-client.ts'
import {
  isUrgent,
  onIncomplete,
  triedTargets,
  upstreamMs,
  upstreamTarget,
  usedTarget,
} from './upstream-context.ts'
import { isBroken, isOfRequest, reasonOf, upstreamProblem } from './upstream-problem.ts'

export interface Attempts {
  /** Returns a target that was not tried and has a free slot; undefined if there is none. */
  next(tried: readonly Target[], client: string): Target | undefined
  readonly retries: number
}

/** Bytes of a response that are kept before it is piped. */
const HELD_BYTES_MAX = 64 * 1_024

const idempotentMethods: ReadonlySet<string> = new Set([
  ...['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'QUERY', 'PROPFIND'],
])

export function exchange(
  request: GatewayRequest,
  body: Buffer | Body | null,
  target: Target,
  attempts: Attempts,
): Promise<GatewayResponse> {
  return new Promise((resolve) => {
    const one = new Exchange(request, body, attempts, resolve)
    // Also if the client got another response: otherwise this one would be kept forever.
    request.onEnd(() => one.cancel())
    one.send(target)
  })
}

class Exchange implements ResponseHandler, Waiter {
  readonly #request: GatewayRequest
  readonly #attempts: Attempts
  readonly #resolve: (response: GatewayResponse) => void
  readonly #startMs = performance.now()
  readonly #tried: Target[] = []
  readonly #body: Buffer | Body | null
  #target: Target | undefined
  #slot: Slot | undefined
  #connection: UpstreamCall | undefined
  #response: GatewayResponse | undefined
  #isDone = false
  #isCancelled = false
  /** The body of the response. */
  readonly #arriving = new HeldBody(this, HELD_BYTES_MAX)

  constructor(
    request: GatewayRequest,
    body: Buffer | Body | null,
    attempts: Attempts,
    resolve: (response: GatewayResponse) => void,
  ) {
    this.#request = request
    this.#attempts = attempts
    this.#resolve = resolve
    this.#body = body
  }

  send(target: Target): void {
    if (this.#isCancelled) {
      this.#refuse(upstreamProblem(clientClosed()))
      return
    }
    const { client, context } = this.#request
    this.#target = target
    context.set(usedTarget, target.origin)
    this.#tried.push(target)
    context.get(triedTargets)?.push(target.origin)
    this.#connection = undefined
    this.#isDone = false
    this.#slot = target.slots.take(client, this, context.get(isUrgent))
    if (this.#slot.isConnected) this.onSlot()
  }

  onSlot(): void {
    const { method, context, headers, bodyBytes, upgrade } = this.#request
    const target = context.get(upstreamTarget)
    const outgoing = { method, target, headers, body: this.#body, bodyBytes, upgrade }
    const { pool } = this.#target as Target
    // If one idle connection was closed, others of the same age may be closed as well.
    const isRetry = this.#tried.length > 1
    const connection = isRetry
      ? pool.sendOnNewConnection(outgoing, this)
      : pool.send(outgoing, this)
    // A connection that failed at once has reported it, and a retry may already be under way.
    if (!connection.isClosed) this.#connection = connection
  }

  onTimeout(): void {
    this.#leaveTarget()
    this.#refuse(refusal(503, 'The upstream has too many requests.', ['retry-after', '1']))
  }

  cancel(): void {
    this.#isCancelled = true
    if (this.#isDone || this.#slot === undefined) return
    if (this.#slot.isConnected) {
      this.#connection?.abort(clientClosed())
      return
    }
    this.#leaveTarget()
    this.#refuse(upstreamProblem(clientClosed()))
  }

  resume(): void {
    this.#connection?.resume()
  }

  onInterim({ status, headers }: ResponseHead): void {
    this.#request.inform(status, headers)
  }

  onHead(head: ResponseHead): void {
    const { status } = head
    this.#noteTime()
    this.#target?.health.onResponse(status)
    const response = responseOf(status, cleanResponseHead(head), this.#arriving)
    response.statusText = head.statusText
    this.#response = response
    this.#resolve(response)
  }

  onData(chunk: Buffer): boolean {
    return this.#arriving.write(chunk)
  }

  onEnd(trailers: HeaderList | undefined): void {
    this.#isDone = true
    this.#leaveTarget()
    this.#cancelBody()
    this.#arriving.end(undefined, trailers && cleanTrailers(trailers))
  }

  onSwitched(head: ResponseHead, socket: Duplex): void {
    this.#isDone = true
    this.#noteTime()
    this.#target?.health.onResponse(head.status)
    this.#leaveTarget()
    // Until the tunnel has its listeners, an error must not crash the process.
    socket.on('error', () => socket.destroy())
    const response = responseOf(head.status, upgradeHead(head.headers), undefined)
    response.tunnel = socket
    this.#resolve(response)
  }

  onError(error: Error, progress: Progress): void {
    // The target is not blamed for faults of the client.
    const isOfClient = this.#isCancelled || isOfRequest(error)
    const target = this.#target
    const reason = isOfClient ? undefined : reasonOf(error)
    if (reason !== undefined) target?.health.onFailure(reason)
    this.#isDone = true
    this.#leaveTarget()
    if (this.#response !== undefined) {
      this.#cancelBody()
      // Before it is piped nothing was sent, so the client can still get another response.
      if (!this.#arriving.isPiped) Object.assign(this.#response, upstreamProblem(error))
      else if (reason !== undefined) this.#reportIncomplete(this.#response, reason, target)
      this.#arriving.fail(error)
      return
    }
    const mayRetry = !isOfClient && this.#mayRetry(error, progress)
    const next = mayRetry ? this.#nextTarget() : undefined
    if (next === undefined) this.#refuse(upstreamProblem(error))
    else this.send(next)
  }

  #mayRetry(error: Error, { isSent, isAnswered }: Progress): boolean {
    if (!isSent) return true
    const isSafe = idempotentMethods.has(this.#request.method) && this.#body === null
    return isSafe && !isAnswered && isBroken(error)
  }

  #nextTarget(): Target | undefined {
    if (this.#tried.length > this.#attempts.retries) return undefined
    // The only target is tried again: it may have closed an idle connection.
    const { client } = this.#request
    return this.#attempts.next(this.#tried, client) ?? this.#attempts.next([], client)
  }

  #reportIncomplete({ status }: GatewayResponse, reason: string, target: Target | undefined): void {
    const response = { status, target: target?.origin ?? '', reason }
    this.#request.context.get(onIncomplete)?.(this.#request, response)
  }

  #noteTime(): void {
    this.#request.context.set(upstreamMs, performance.now() - this.#startMs)
  }

  #refuse(response: GatewayResponse): void {
    this.#isDone = true
    this.#noteTime()
    this.#cancelBody()
    this.#resolve(response)
  }

  #cancelBody(): void {
    if (this.#body !== null && !Buffer.isBuffer(this.#body)) this.#body.cancel()
  }

  #leaveTarget(): void {
    const slot = this.#slot
    this.#target = undefined
    this.#connection = undefined
    this.#slot = undefined
    slot?.release()
  }
}

function clientClosed(): Error {
  return Object.assign(new Error('the client has disconnected'), { code: 'TIDEGATE_CLIENT_CLOSED' })
}
