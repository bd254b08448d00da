/** The response to a client whose upstream gave none. */

import type { GatewayResponse } from '../message.ts'
import { refusal } from '../refusal.ts'

const details: Readonly<Record<string, readonly [status: number, detail: string]>> = {
  UPSTREAM_CONNECT_TIMEOUT: [504, 'The upstream could not be reached in time.'],
  UPSTREAM_RESPONSE_TIMEOUT: [504, 'The upstream did not respond in time.'],
  UPSTREAM_IDLE_TIMEOUT: [504, 'The upstream did not respond in time.'],
  UPSTREAM_HEAD_TOO_LARGE: [502, 'The response of the upstream has too many header fields.'],
  UPSTREAM_UNWRITABLE: [400, 'The request cannot be forwarded.'],
  ECONNREFUSED: [502, 'The upstream could not be reached.'],
  EHOSTUNREACH: [502, 'The upstream could not be reached.'],
  ENETUNREACH: [502, 'The upstream could not be reached.'],
  ENOTFOUND: [502, 'The upstream could not be reached.'],
  ETIMEDOUT: [504, 'The upstream could not be reached in time.'],
  // Only the log gets this one.
  TIDEGATE_CLIENT_CLOSED: [400, 'The client has disconnected.'],
  TIDEGATE_BODY_ABORTED: [400, 'The body of the request is incomplete.'],
  TIDEGATE_BODY_INVALID: [400, 'The body of the request is not valid HTTP.'],
  TIDEGATE_BODY_TOO_LARGE: [413, 'The body of the request is too large.'],
  TIDEGATE_BODY_TOO_SLOW: [408, 'The body of the request did not arrive in time.'],
  TIDEGATE_TRAILERS_TOO_LARGE: [431, 'The trailers of the request are too large.'],
}

/** Errors of a connection that was closed before a response began. */
const brokenCodes: ReadonlySet<string> = new Set([
  ...['UPSTREAM_CLOSED', 'ECONNRESET', 'EPIPE', 'ECONNREFUSED', 'ECONNABORTED'],
])

/** Enough for a sentence. */
const REASON_LENGTH_MAX = 128

export function upstreamProblem(error: Error): GatewayResponse {
  const code = codeOf(error)
  const [status, detail] = (Object.hasOwn(details, code) ? details[code] : undefined) ?? [
    502,
    'The upstream gave no valid response.',
  ]
  return refusal(status, detail)
}

export function isBroken(error: Error): boolean {
  return brokenCodes.has(codeOf(error))
}

/** True if the request is at fault, whichever target gets it. */
export function isOfRequest(error: Error): boolean {
  const code = codeOf(error)
  return code === 'UPSTREAM_UNWRITABLE' || code.startsWith('TIDEGATE_')
}

/** For logs: the code of an error, or the start of its message if it has none. */
export function reasonOf(error: Error): string {
  return codeOf(error) || error.message.slice(0, REASON_LENGTH_MAX)
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : ''
}
