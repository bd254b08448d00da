/**
 * Writes the access log: a line for each request when its response was sent or its client has
 * disconnected. It wraps all other stages, so that it sees refusals too. Probes of the gateway
 * itself have no line.
 */

import type { Duplex } from 'node:stream'
import type { AccessRecord } from '../../../observability/lines/access-line.ts'
import type { AccessLog } from '../../../observability/lines/access-log.ts'
import { CountedBody } from '../../body/counted-body.ts'
import type { GatewayRequest, GatewayResponse } from '../../message.ts'
import type { Stage } from '../../pipeline.ts'
import { requestIdOf, traceIdOf } from '../../request-id.ts'
import { upstreamMs, usedTarget } from '../../upstreams/upstream-context.ts'
import { foundRoute } from '../route.ts'

/** As in logs of nginx: the client has disconnected before there was a response. */
const CLIENT_CLOSED = 499

export function accessLog(log: AccessLog, isOwn: (request: GatewayRequest) => boolean): Stage {
  return (request, next) => {
    if (isOwn(request)) return next(request)
    const entry = new Entry(log, request)
    request.onEnd(entry.onEnd)
    try {
      const response = next(request)
      if (response instanceof Promise) return response.then(entry.onResponse, entry.onError)
      return entry.onResponse(response)
    } catch (error) {
      return entry.onError(error)
    }
  }
}

class Entry {
  readonly #log: AccessLog
  readonly #request: GatewayRequest
  readonly #startMs = performance.now()
  readonly #startedMs = Date.now()
  #response: GatewayResponse | undefined
  #body: CountedBody | undefined
  #tunnel: TunnelBytes | undefined
  #status = 0
  #end: { readonly durationMs: number; readonly isAborted: boolean } | undefined

  constructor(log: AccessLog, request: GatewayRequest) {
    this.#log = log
    this.#request = request
  }

  readonly onResponse = (response: GatewayResponse): GatewayResponse => {
    this.#response = response
    const { body, tunnel } = response
    if (tunnel !== undefined) this.#tunnel = new TunnelBytes(tunnel)
    else if (body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body)) {
      this.#body = new CountedBody(body)
      response.body = this.#body
    }
    if (this.#end !== undefined) this.#write(CLIENT_CLOSED)
    return response
  }

  /** The listener responds with 500. */
  readonly onError = (error: unknown): never => {
    if (this.#end === undefined) this.#status = 500
    else this.#write(CLIENT_CLOSED)
    throw error
  }

  readonly onEnd = (isAborted: boolean): void => {
    this.#end = { durationMs: performance.now() - this.#startMs, isAborted }
    // Without a response yet, the line waits for the fields that it brings.
    if (this.#response !== undefined) this.#write(this.#response.status)
    else if (this.#status !== 0) this.#write(this.#status)
  }

  #write(status: number): void {
    this.#log.add(status, () => this.#record(status))
  }

  #record(status: number): AccessRecord {
    const request = this.#request
    const { context, method, path, query, host, version, ip } = request
    const route = context.get(foundRoute)
    return {
      startedMs: this.#startedMs,
      durationMs: this.#end?.durationMs ?? 0,
      requestId: requestIdOf(request),
      traceId: traceIdOf(request),
      ...{ ip, method, host, path, query, version, status },
      bytesIn: this.#tunnel?.fromClient ?? request.bodyBytesReceived,
      bytesOut: status === CLIENT_CLOSED ? 0 : this.#bytesOut(),
      route: route?.name,
      upstream: route?.upstream.name,
      target: context.get(usedTarget),
      upstreamMs: context.get(upstreamMs),
      userAgent: request.header('user-agent'),
      referer: request.header('referer'),
      problem: this.#response?.problem,
      isAborted: this.#end?.isAborted ?? false,
    }
  }

  #bytesOut(): number {
    if (this.#tunnel !== undefined) return this.#tunnel.toClient
    const { method } = this.#request
    const { status = 0, body } = this.#response ?? {}
    if (method === 'HEAD' || status === 204 || status === 304) return 0
    // A body that failed before it was sent was replaced by that of a refusal.
    if (typeof body === 'string' || Buffer.isBuffer(body)) return body.length
    return this.#body?.bytes ?? 0
  }
}

/** The bytes of a connection that has switched protocols. */
class TunnelBytes {
  readonly #socket: Partial<Record<'bytesRead' | 'bytesWritten', number>>
  readonly #read: number
  readonly #written: number

  constructor(tunnel: Duplex) {
    this.#socket = tunnel as Duplex & Partial<Record<'bytesRead' | 'bytesWritten', number>>
    this.#read = this.#socket.bytesRead ?? 0
    this.#written = this.#socket.bytesWritten ?? 0
  }

  get toClient(): number {
    return (this.#socket.bytesRead ?? 0) - this.#read
  }

  get fromClient(): number {
    return (this.#socket.bytesWritten ?? 0) - this.#written
  }
}
