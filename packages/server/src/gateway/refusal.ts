/**
 * Responses of the gateway itself, as problem details. They never repeat bytes of the request.
 * https://www.rfc-editor.org/rfc/rfc9457
 */

import { STATUS_CODES } from 'node:http'
import { PROBLEM_CONTENT_TYPE } from 'tidegate/http'
import type { HeaderList } from './header-list.ts'
import { type GatewayResponse, responseOf } from './message.ts'

export function refusal(
  status: number,
  detail: string,
  headers: Readonly<HeaderList> = [],
): GatewayResponse {
  const title = STATUS_CODES[status] ?? 'Error'
  const body = JSON.stringify({ type: 'about:blank', title, status, detail })
  const fields = ['cache-control', 'no-store', ...headers]
  const response = textResponse(status, body, PROBLEM_CONTENT_TYPE, fields)
  response.problem = detail
  return response
}

/** A response with a complete body; the text must be ASCII. */
export function textResponse(
  status: number,
  body: string,
  contentType: string,
  headers: HeaderList = [],
): GatewayResponse {
  headers.push('content-type', contentType, 'content-length', String(body.length))
  return responseOf(status, headers, body)
}
