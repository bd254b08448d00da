/**
 * The contract between a transport and its handler: bytes in, one call of the handler for each
 * request, bytes out. A transport knows HTTP/2, and of gRPC only the framing of responses. The
 * handler does not know connections.
 */

/** A complete request, and the methods to respond to it. */
export interface RpcCall {
  readonly path: string
  /** The header `grpc-timeout` as received, or an empty text. */
  readonly timeout: string
  /** The headers `x-request-id` and `traceparent` as received, or empty texts. */
  readonly requestId: string
  readonly traceparent: string
  /**
   * The body is `bytes` from `start` to `end`: length-prefixed messages. They belong to the
   * transport and are valid only until the handler returns.
   */
  readonly bytes: Buffer
  readonly start: number
  readonly end: number
  /** False after a response or a disconnect. Further responses are dropped. */
  readonly isOpen: boolean
  /** Ends a unary call with OK and its one message: copies the first `length` bytes. */
  reply(message: Uint8Array, length: number): void
  /** Sends a message of a stream; more may follow. */
  send(message: Uint8Array): void
  /** Ends the call with a gRPC status. */
  finish(status: number, text: string): void
  /** Called if the client disconnects or cancels before the end. */
  onCancel: (() => void) | undefined
}

/** Responds now or later. It should not throw; if it does, the call ends with INTERNAL. */
export type RpcHandler = (call: RpcCall) => void

/** https://grpc.io/docs/guides/status-codes/ */
export const rpcStatus = {
  ok: 0,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
} as const

/** A message begins with one byte for compression and four bytes for its length. */
export const MESSAGE_PREFIX_BYTES = 5

/** Twice the size of a call with 64 descriptors of 16 short entries. */
export const MESSAGE_BYTES_MAX = 65_536

export interface TransportSettings {
  readonly handler: RpcHandler
  /** Undefined for plain text. */
  readonly tls: TlsFiles | undefined
  /** The age at which a connection gets GOAWAY, so that clients find new servers. */
  readonly connectionAgeMs: number
  /** The time after GOAWAY until a connection is closed. */
  readonly connectionAgeGraceMs: number
  /** The silence after which a connection gets a PING. */
  readonly keepAliveMs: number
  /** The timeout for the first frame of a connection, and for each frame or header block. */
  readonly frameMs: number
  /** The maximum for all addresses together. One address alone gets half of it. */
  readonly connectionsMax: number
  readonly streamsMax: number
}

export interface TlsFiles {
  readonly cert: string
  readonly key: string
  /** If set, clients need a certificate that it has signed. */
  readonly clientCa: string | undefined
  /** If not empty, that certificate needs one of these names. */
  readonly clientNames: readonly string[]
}

export type ListenAddress =
  | { readonly host: string; readonly port: number }
  | { readonly path: string }

export interface RpcTransport {
  /** The address that it listens on. */
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string }
  readonly connections: number
  /** Accepts no more connections, finishes calls, and closes the rest after `graceMs`. */
  drain(graceMs: number): Promise<void>
}
