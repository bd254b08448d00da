/** Requests and responses as handlers see them, without sockets. */

import type { IncomingHttpHeaders } from 'node:http'

export interface ApiRequest {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  /** The parts of the path that the route names. */
  readonly params: Readonly<Record<string, string>>
  readonly headers: IncomingHttpHeaders
  /** The id of the caller, or a new one. The response carries it. */
  readonly requestId: string
  /** Undefined if the client has disconnected. */
  readonly remoteAddress: string | undefined
  readonly isEncrypted: boolean
  /** The alternative names in the client's certificate, if it was verified. */
  readonly certificateNames: readonly string[]
  /** Reads the body as UTF-8. Rejects with 413 if it has more than `bytesMax` bytes. */
  text(bytesMax: number): Promise<string>
}

export interface ApiResponse {
  readonly status: number
  readonly type: string
  /** An iterator yields the lines of a long page, which is sent in chunks. */
  readonly body: string | Buffer | Iterator<string> | StreamBody
  readonly headers?: Readonly<Record<string, string>>
}

/** A body without an end, such as one of server-sent events. */
export interface StreamBody {
  /** Called after the head was sent. The result is called once the client has disconnected. */
  start(sink: StreamSink): () => void
}

export interface StreamSink {
  write(text: string): void
  /** Bytes that the client has not read yet. */
  readonly waitingBytes: number
  /** Ends the response. */
  end(): void
  /** Disconnects the client. */
  cut(): void
}

export function textResponse(status: number, body: string): ApiResponse {
  return { status, type: 'text/plain; charset=utf-8', body }
}

export function jsonResponse(status: number, body: string): ApiResponse {
  return { status, type: 'application/json', body }
}
