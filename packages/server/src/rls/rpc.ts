/**
 * The contract between a transport and what it serves: bytes in, one call of the handler for each
 * request, bytes out. A transport knows HTTP/2 and nothing of gRPC but how its answers look; the
 * handler knows nothing of connections.
 */

/** A request that has arrived completely, and the way to answer it. */
export interface RpcCall {
  readonly path: string
  /** The header `grpc-timeout` as it came, or an empty text. */
  readonly timeout: string
  /**
   * The body is `bytes` from `start` to `end`: length-prefixed messages. They belong to the
   * transport and are valid only until the handler returns.
   */
  readonly bytes: Buffer
  readonly start: number
  readonly end: number
  /** False once the client has gone or an answer was given. Answers to it are dropped then. */
  readonly isOpen: boolean
  /** The one message of a unary call, of which the first `length` bytes are copied, and OK. */
  reply(message: Uint8Array, length: number): void
  /** A message of a stream; more may follow. */
  send(message: Uint8Array): void
  /** Ends the call with a status of gRPC. */
  finish(status: number, text: string): void
  /** Called when the client has gone before the end. */
  onGone: (() => void) | undefined
}

/** Answers now or later. It does not throw; where it does, the call ends with INTERNAL. */
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

/** A message on the wire begins with whether it is compressed, and its length in four bytes. */
export const MESSAGE_PREFIX_BYTES = 5

/** A call with 64 descriptors of 16 short entries is half of this. */
export const MESSAGE_BYTES_MAX = 65_536

export interface TransportSettings {
  readonly handler: RpcHandler
  /** With TLS. */
  readonly tls: TlsFiles | undefined
  /** After this, a connection is asked to go, so that clients find new servers. */
  readonly connectionAgeMs: number
  /** And after this much more it is closed. */
  readonly connectionAgeGraceMs: number
  /** A connection on which nothing came for so long is asked whether it is still there. */
  readonly keepAliveMs: number
  readonly connectionsMax: number
  readonly streamsMax: number
}

export interface TlsFiles {
  readonly cert: string
  readonly key: string
  /** With it, clients have to show a certificate that it has signed. */
  readonly clientCa: string | undefined
  /** And one of these names. */
  readonly clientNames: readonly string[]
}

export type ListenAddress =
  | { readonly host: string; readonly port: number }
  | { readonly path: string }

export interface RpcTransport {
  /** Where it listens. */
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string }
  readonly connections: number
  /** Takes no more connections, lets calls end, and closes what is left after that time. */
  drain(graceMs: number): Promise<void>
}
