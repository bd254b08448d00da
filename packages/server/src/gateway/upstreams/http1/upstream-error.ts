/** What can go wrong with an upstream, besides what the system says of its sockets. */

import type { ReadErrors } from '../../http1/fields.ts'

export type UpstreamErrorCode =
  | 'UPSTREAM_CONNECT_TIMEOUT'
  | 'UPSTREAM_RESPONSE_TIMEOUT'
  | 'UPSTREAM_IDLE_TIMEOUT'
  | 'UPSTREAM_HEAD_TOO_LARGE'
  /** The connection ended before the answer did. */
  | 'UPSTREAM_CLOSED'
  /** What it sent is not HTTP, or could be read in two ways. */
  | 'UPSTREAM_INVALID'
  /** The request cannot be said in HTTP/1. */
  | 'UPSTREAM_UNWRITABLE'

export function upstreamError(code: UpstreamErrorCode, message: string): Error {
  return Object.assign(new Error(message), { code })
}

export function invalidAnswer(message: string): Error {
  return upstreamError('UPSTREAM_INVALID', message)
}

export const answerErrors: ReadErrors = {
  invalid: invalidAnswer,
  tooLarge: (message) => upstreamError('UPSTREAM_HEAD_TOO_LARGE', message),
}
