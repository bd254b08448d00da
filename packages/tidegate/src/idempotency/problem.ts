/**
 * Responses to requests whose idempotency key cannot be used, as problem details. They contain
 * nothing that the client sent. https://www.rfc-editor.org/rfc/rfc9457
 */

import { PROBLEM_CONTENT_TYPE } from '../http/problem.ts'

export const idempotencyProblems = [
  'key-missing',
  'key-invalid',
  'sender-unknown',
  'body-too-large',
  'key-reused',
  'in-progress',
  'outcome-unknown',
  'response-not-kept',
  'too-many-replays',
  'unavailable',
] as const

export type IdempotencyProblemCode = (typeof idempotencyProblems)[number]

export interface IdempotencyProblem {
  readonly type: 'about:blank'
  readonly title: string
  readonly status: number
  readonly detail: string
  /** Distinguishes the problems for programs. */
  readonly code: IdempotencyProblemCode
  /** The status of the response that was sent first; only with `response-not-kept`. */
  readonly 'original-status'?: number
  /** Seconds. */
  readonly retry_after?: number
}

const texts: Readonly<Record<IdempotencyProblemCode, readonly [number, string, string]>> = {
  'key-missing': [400, 'Bad Request', 'This request needs the header field Idempotency-Key.'],
  'key-invalid': [
    ...([400, 'Bad Request'] as const),
    'Idempotency-Key must be one string of 1 to 255 visible ASCII characters, bare or in quotes.',
  ],
  'sender-unknown': [
    ...([401, 'Unauthorized'] as const),
    'A request with an Idempotency-Key needs credentials that identify its sender.',
  ],
  'body-too-large': [
    ...([413, 'Content Too Large'] as const),
    'The body is too large for a request with an Idempotency-Key.',
  ],
  'key-reused': [
    ...([422, 'Unprocessable Content'] as const),
    'This Idempotency-Key was used for another request. Each request needs its own key.',
  ],
  'in-progress': [
    ...([409, 'Conflict'] as const),
    'A request with this Idempotency-Key is under way. Send the same request again later.',
  ],
  'outcome-unknown': [
    ...([409, 'Conflict'] as const),
    'A request with this Idempotency-Key was begun, and its outcome is unknown.',
  ],
  'response-not-kept': [
    ...([409, 'Conflict'] as const),
    'The request with this Idempotency-Key was executed, and its response was not kept.',
  ],
  'too-many-replays': [
    ...([429, 'Too Many Requests'] as const),
    'Too many repeated requests with Idempotency-Key.',
  ],
  unavailable: [
    ...([503, 'Service Unavailable'] as const),
    'Idempotency keys cannot be checked at the moment. Send the same request again later.',
  ],
}

export function idempotencyProblem(
  code: IdempotencyProblemCode,
  more: Pick<IdempotencyProblem, 'original-status' | 'retry_after'> = {},
): IdempotencyProblem {
  const [status, title, detail] = texts[code]
  return { type: 'about:blank', title, status, detail, code, ...more }
}

/** The header fields of its response. */
export function problemFields({ retry_after }: IdempotencyProblem): Record<string, string> {
  return {
    'content-type': PROBLEM_CONTENT_TYPE,
    'cache-control': 'no-store',
    ...(retry_after !== undefined && { 'retry-after': String(retry_after) }),
  }
}
