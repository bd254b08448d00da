/**
 * A request on the wire: where its body comes from and where its answer goes. HTTP/1 and HTTP/2
 * have one each, and nothing but them knows how it is done there.
 */

import type { GatewayResponse } from '../message.ts'
import type { ClientRequest } from './client-request.ts'

export interface Channel {
  /** Nobody is there any more who could get an answer. */
  readonly isGone: boolean
  /** The client may send the body that it waits to send. */
  sendContinue(): void
  /** https://www.rfc-editor.org/rfc/rfc8297 */
  sendHints(link: string): void
  /** The body of the request as it arrives, to be asked for once. */
  arriving(): ArrivingBytes
  /** Sends the answer, and ends the request once it is gone. */
  send(request: ClientRequest, response: GatewayResponse): void
  /** Ends it so that the client can see that something is missing. */
  cutOff(): void
}

/** Bytes that arrive no faster than they are taken. */
export interface ArrivingBytes {
  readonly isPaused: boolean
  /** Nothing comes before this. */
  start(receiver: ByteReceiver): void
  pause(): void
  resume(): void
  /** Nothing comes after this, and what is left is nobody's. */
  stop(): void
}

/** What can become of a body, besides its end. */
export type BodyErrorCode =
  | 'TIDEGATE_BODY_ABORTED'
  | 'TIDEGATE_BODY_INVALID'
  | 'TIDEGATE_BODY_TOO_LARGE'
  | 'TIDEGATE_BODY_TOO_SLOW'
  | 'TIDEGATE_TRAILERS_TOO_LARGE'

export interface ByteReceiver {
  onData(chunk: Buffer): void
  onEnd(): void
  /** No more of it will come; the code says why. */
  onBroken(code: BodyErrorCode): void
}
