/**
 * A request on the wire: where its body comes from and where its response goes. Each protocol has
 * an implementation, and nothing else knows the protocol.
 */

import type { Body } from '../body/body.ts'
import type { GatewayResponse, HttpVersion } from '../message.ts'

export interface Channel {
  /** True if the client has disconnected or the connection is closing: no response arrives. */
  readonly isClosed: boolean
  /** Sends `100 Continue`, for which a client waits before it sends its body. */
  sendContinue(): void
  /** https://www.rfc-editor.org/rfc/rfc8297 */
  sendHints(link: string): void
  /** The body of the request as it arrives, to be asked for once. */
  body(): Body
  /** Sends the response, and calls `end` of the request once it is written. */
  send(request: ChannelRequest, response: GatewayResponse): void
  /** Ends the response so that the client can see that it is incomplete. */
  abort(): void
}

/** What a channel needs of a request. */
export interface ChannelRequest {
  readonly method: string
  readonly version: HttpVersion
  readonly hasBody: boolean
  readonly bodyBytes: number | undefined
  /** True if the client waits for `100 Continue` before it sends the body. */
  readonly isWaiting: boolean
  /** To be set by the channel when it begins the response. */
  isHeadSent: boolean
  /** To be called once: the response was sent, or the client has disconnected. */
  end(isAborted: boolean): void
}
