/**
 * The HTTP/1 client of a target: the gateway's own, or undici. Both bound the bytes that they read
 * and the time that they wait, and both verify certificates.
 */

import type { PoolOptions } from './http1/connection-pool.ts'
import type { OutgoingRequest } from './http1/request-writer.ts'
import type { ResponseHandler } from './http1/upstream-connection.ts'

export interface UpstreamClient {
  /** Sends a request on an idle connection if there is one. */
  send(request: OutgoingRequest, handler: ResponseHandler): UpstreamCall
  /** Sends a request on a new connection. */
  sendOnNewConnection(request: OutgoingRequest, handler: ResponseHandler): UpstreamCall
  /** Closes all connections; requests under way fail. */
  destroy(): void
}

/** A request under way. */
export interface UpstreamCall {
  /** True if the connection has ended. */
  readonly isClosed: boolean
  /** Reads nothing more of the response until `resume`. */
  pause(): void
  resume(): void
  /** Closes the connection and reports this error to the handler. */
  abort(error: Error): void
  /** Closes the connection without a report. */
  destroy(): void
}

export type CreateClient = (options: PoolOptions) => UpstreamClient
