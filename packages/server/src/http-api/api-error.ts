/** Errors of a request, as problem details: https://www.rfc-editor.org/rfc/rfc9457 */

import type { ApiResponse } from './messages.ts'

export const PROBLEM_TYPE = 'application/problem+json'

/** A request that cannot be served; the message is for the client. */
export class ApiError extends Error {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Further members of the problem details. */
  readonly members: object

  constructor(
    status: number,
    message: string,
    headers: Readonly<Record<string, string>> = {},
    members: object = {},
  ) {
    super(message)
    this.status = status
    this.headers = headers
    this.members = members
  }
}

const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  421: 'Misdirected Request',
  422: 'Unprocessable Content',
  428: 'Precondition Required',
  429: 'Too Many Requests',
  501: 'Not Implemented',
  503: 'Service Unavailable',
}

/** Other errors than ApiError are not described to the client. */
export function problemResponse(error: unknown): ApiResponse {
  const isKnown = error instanceof ApiError
  const status = isKnown ? error.status : 500
  const title = titles[status] ?? 'Internal Server Error'
  const detail = isKnown ? error.message : 'The request could not be served.'
  return {
    status,
    type: PROBLEM_TYPE,
    body: JSON.stringify({ title, status, detail, ...(isKnown && error.members) }),
    ...(isKnown && { headers: error.headers }),
  }
}
