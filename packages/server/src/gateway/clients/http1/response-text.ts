/** Responses as HTTP/1 text. */

import { STATUS_CODES } from 'node:http'
import { lineStart } from '../../http1/fields.ts'
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
  let head = `HTTP/1.1 ${status} ${statusText || STATUS_CODES[status] || 'Unknown'}`
  let hasDate = false
  let hasLength = false
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string
    if (name === 'date') hasDate = true
    else if (name === 'content-length') hasLength = true
    else if (name === 'trailer' && ending !== 'chunks') continue
    head += (lineStart(name) ?? `\r\n${name}: `) + headers[at + 1]
  }
  if (ending === 'chunks') head += '\r\ntransfer-encoding: chunked'
  if (!hasLength && bodyBytes !== undefined) head += `\r\ncontent-length: ${bodyBytes}`
  if (!hasDate) head += `\r\ndate: ${dateNow()}`
  if (keptSeconds === undefined) return `${head}\r\nconnection: close\r\n\r\n`
  return `${head}\r\nconnection: keep-alive\r\nkeep-alive: timeout=${keptSeconds}\r\n\r\n`
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
