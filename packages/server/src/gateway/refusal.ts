/**
 * Answers that the gateway gives itself, as problem details. They say what is wrong and nothing
 * that the client sent. https://www.rfc-editor.org/rfc/rfc9457
 */

import { STATUS_CODES } from 'node:http'
import { PROBLEM_CONTENT_TYPE } from 'tidegate/http'
import { type GatewayResponse, type HeaderList, responseOf } from './message.ts'

export function refusal(
  status: number,
  detail: string,
  headers: Readonly<HeaderList> = [],
): GatewayResponse {
  const title = STATUS_CODES[status] ?? 'Error'
  const body = JSON.stringify({ type: 'about:blank', title, status, detail })
  const fields = ['cache-control', 'no-store', ...headers]
  const response = answer(status, body, PROBLEM_CONTENT_TYPE, fields)
  response.problem = detail
  return response
}

/** A response whose whole body is there; a text must have no character beyond ASCII. */
export function answer(
  status: number,
  body: string,
  contentType: string,
  headers: HeaderList = [],
): GatewayResponse {
  headers.push('content-type', contentType, 'content-length', String(body.length))
  return responseOf(status, headers, body)
}
