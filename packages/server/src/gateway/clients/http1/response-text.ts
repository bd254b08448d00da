/** Responses as HTTP/1 text. */

import { STATUS_CODES } from 'node:http'
import type { Ending } from '../../http1/message-writer.ts'
import type { GatewayResponse } from '../../message.ts'

export interface HeadOptions {
  readonly ending: Ending
  /** The length of a complete body, for responses without `content-length`. */
  readonly bodyBytes: number | undefined
  /** How long the connection is kept; undefined if it is closed. */
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
