/** Answers as they go over the wire of HTTP/1. */

import { STATUS_CODES } from 'node:http'
import type { GatewayResponse, HeaderList } from '../../message.ts'

/** How the end of an answer is told. */
export type Ending = 'length' | 'chunks' | 'close' | 'none'

export interface HeadOptions {
  readonly ending: Ending
  /** Where the body is here and its length not among the fields. */
  readonly bodyBytes: number | undefined
  /** For how long the connection is kept; undefined where it is closed. */
  readonly keptSeconds: number | undefined
}

export function headText(
  { status, statusText, headers }: GatewayResponse,
  { ending, bodyBytes, keptSeconds }: HeadOptions,
): string {
  let head = `HTTP/1.1 ${status} ${statusText || STATUS_CODES[status] || 'Unknown'}\r\n`
  let hasDate = false
  let hasLength = false
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string
    if (name === 'date') hasDate = true
    else if (name === 'content-length') hasLength = true
    else if (name === 'trailer' && ending !== 'chunks') continue
    head += `${name}: ${headers[at + 1]}\r\n`
  }
  if (ending === 'chunks') head += 'transfer-encoding: chunked\r\n'
  if (!hasLength && bodyBytes !== undefined) head += `content-length: ${bodyBytes}\r\n`
  if (!hasDate) head += `date: ${dateNow()}\r\n`
  if (keptSeconds === undefined) return `${head}connection: close\r\n\r\n`
  return `${head}connection: keep-alive\r\nkeep-alive: timeout=${keptSeconds}\r\n\r\n`
}

/** https://www.rfc-editor.org/rfc/rfc9112#section-7.1.2 */
export function lastChunkText(trailers: HeaderList | undefined): string {
  let text = '0\r\n'
  for (let at = 0; trailers !== undefined && at < trailers.length; at += 2) {
    text += `${trailers[at]}: ${trailers[at + 1]}\r\n`
  }
  return `${text}\r\n`
}

let dateSecond = 0
let dateText = ''

function dateNow(): string {
  const nowMs = Date.now()
  const second = Math.floor(nowMs / 1_000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = new Date(nowMs).toUTCString()
  }
  return dateText
}
