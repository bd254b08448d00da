/** Errors of upstreams, besides those that the kernel reports. */

import type { ReadErrors } from '../../http1/fields.ts'

export type UpstreamErrorCode =
  | 'UPSTREAM_CONNECT_TIMEOUT'
  | 'UPSTREAM_RESPONSE_TIMEOUT'
  | 'UPSTREAM_IDLE_TIMEOUT'
  | 'UPSTREAM_HEAD_TOO_LARGE'
  /** The connection was closed before the response was complete. */
  | 'UPSTREAM_CLOSED'
  /** The bytes are not HTTP, or could be read in two ways. */
  | 'UPSTREAM_INVALID'
  /** The request cannot be expressed in HTTP/1. */
  | 'UPSTREAM_UNWRITABLE'

export function upstreamError(code: UpstreamErrorCode, message: string): Error {
  return Object.assign(new Error(message), { code })
}

export function invalidResponse(message: string): Error {
  return upstreamError('UPSTREAM_INVALID', message)
}

export const responseErrors: ReadErrors = {
  invalid: invalidResponse,
  tooLarge: (message) => upstreamError('UPSTREAM_HEAD_TOO_LARGE', message),
}
