/** What a client is told when its upstream gave no answer. */

import type { GatewayResponse } from '../message.ts'
import { refusal } from '../refusal.ts'

const details: Readonly<Record<string, readonly [status: number, detail: string]>> = {
  UPSTREAM_CONNECT_TIMEOUT: [504, 'The upstream could not be reached in time.'],
  UPSTREAM_RESPONSE_TIMEOUT: [504, 'The upstream did not answer in time.'],
  UPSTREAM_IDLE_TIMEOUT: [504, 'The upstream did not answer in time.'],
  UPSTREAM_HEAD_TOO_LARGE: [502, 'The upstream answered with too many header fields.'],
  UPSTREAM_UNWRITABLE: [400, 'The request cannot be forwarded.'],
  ECONNREFUSED: [502, 'The upstream could not be reached.'],
  EHOSTUNREACH: [502, 'The upstream could not be reached.'],
  ENETUNREACH: [502, 'The upstream could not be reached.'],
  ENOTFOUND: [502, 'The upstream could not be reached.'],
  ETIMEDOUT: [504, 'The upstream could not be reached in time.'],
  // Nobody is there any more to be told so, but the log is.
  TIDEGATE_CLIENT_GONE: [400, 'The client has gone.'],
  TIDEGATE_BODY_ABORTED: [400, 'The body of the request broke off.'],
  TIDEGATE_BODY_INVALID: [400, 'The body of the request is not valid HTTP.'],
  TIDEGATE_BODY_TOO_LARGE: [413, 'The body of the request is too large.'],
  TIDEGATE_BODY_TOO_SLOW: [408, 'The body of the request did not arrive in time.'],
  TIDEGATE_TRAILERS_TOO_LARGE: [431, 'The trailers of the request are too large.'],
}

/** Errors of a connection that was there: it ended before an answer began. */
const brokenCodes: ReadonlySet<string> = new Set([
  ...['UPSTREAM_CLOSED', 'ECONNRESET', 'EPIPE', 'ECONNREFUSED', 'ECONNABORTED'],
])

export function upstreamProblem(error: Error): GatewayResponse {
  const code = codeOf(error)
  const [status, detail] = (Object.hasOwn(details, code) ? details[code] : undefined) ?? [
    502,
    'The upstream gave no valid answer.',
  ]
  return refusal(status, detail)
}

export function isBroken(error: Error): boolean {
  return brokenCodes.has(codeOf(error))
}

/** What the client sent is at fault, whichever target it would go to. */
export function isOfRequest(error: Error): boolean {
  const code = codeOf(error)
  return code === 'UPSTREAM_UNWRITABLE' || code.startsWith('TIDEGATE_')
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : ''
}
