/**
 * The request and the response as stages see them. They are plain values, so that no stage knows
 * how bytes travel: `clients/` makes requests and writes responses, `upstreams/` the reverse.
 */

import type { Duplex } from 'node:stream'
import type { Identity, RequestFacts } from '../limits/request-facts.ts'
import type { Body } from './body/body.ts'
import type { RequestContext } from './context.ts'
import type { HeaderList } from './header-list.ts'

export type HttpVersion = '1.0' | '1.1' | '2'

export interface GatewayRequest extends RequestFacts {
  /** With its question mark, or empty. It is never matched. */
  readonly query: string
  /** The fields that the client sent, without those that concern only its connection. */
  readonly headers: HeaderList
  /** Fields under names that proxies set; to be believed only from trusted proxies. */
  readonly forwarded: HeaderList
  readonly version: HttpVersion
  /** The authority that the client asked for. */
  readonly host: string
  /** Identifies the client when clients share a resource: its address, or its IPv6 network. */
  readonly client: string
  readonly connection: ClientConnection
  identity: Identity
  /** The protocol that the client wants to switch to, such as `websocket`. */
  readonly upgrade: string | undefined
  /** In bytes; undefined if there is no body or the client did not declare its length. */
  readonly bodyBytes: number | undefined
  readonly hasBody: boolean
  /** Bytes of the body that have arrived and were asked for. */
  readonly bodyBytesReceived: number
  /**
   * The body, to be asked for once. It resolves to all bytes of a small body, or to a larger body
   * once its beginning has arrived. Sends `100 Continue` if the client waits for that. Rejects if
   * the body is too large, too slow or incomplete.
   */
  body(): Promise<Buffer | Body>
  /** Sends an interim response such as 103, if the protocol has them. */
  inform(status: number, headers: HeaderList): void
  /** Calls once when the response was sent, or at once if the client has disconnected. */
  onEnd(callback: (isAborted: boolean) => void): void

  /** The refusal of a request that was found invalid while it was read. */
  readonly problem: GatewayResponse | undefined
  /** Values that stages leave for one another. */
  readonly context: RequestContext
}

/** Properties that all requests of one connection share. */
export interface ClientConnection {
  readonly peer: string | undefined
  /** The peer as `Forwarded` writes it: https://www.rfc-editor.org/rfc/rfc7239#section-6 */
  readonly forwardedNode: string
  readonly isTrusted: boolean
  readonly isEncrypted: boolean
  /** How many of its last requests in a row were refused because of overload. */
  refusals: number
  /** After the current response, HTTP/1 reads no request for this time. */
  holdMs: number
  /** Present only if it was verified. */
  readonly certificate: ClientCertificate | undefined
}

export interface ClientCertificate {
  readonly commonName: string | undefined
  readonly names: readonly string[]
  readonly fingerprint: string
}

export interface GatewayResponse {
  status: number
  statusText: string
  headers: HeaderList
  /** Complete, or still arriving. */
  body: string | Buffer | Body | undefined
  /** The connection to the upstream, if the response switches protocols. */
  tunnel: Duplex | undefined
  /** Why the gateway itself refused the request, for logs. */
  problem: string | undefined
  /** True if many requests get this response, so that it must not change. */
  isShared: boolean
  /** The whole response as HTTP/1 text, which a listener keeps with a shared response. */
  wireText: string | undefined
}

export function responseOf(
  status: number,
  headers: HeaderList,
  body: GatewayResponse['body'],
): GatewayResponse {
  return {
    status,
    statusText: '',
    headers,
    body,
    tunnel: undefined,
    problem: undefined,
    isShared: false,
    wireText: undefined,
  }
}
