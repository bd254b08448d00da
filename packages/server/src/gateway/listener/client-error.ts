/**
 * What is answered where no request could be read: bytes that are no HTTP, too large a head, or a
 * client that took too long. The connection ends with it, because nobody knows where in the bytes
 * the next request would begin.
 */

import type { Duplex } from 'node:stream'
import type { GatewayResponse } from '../message.ts'
import { refusal } from '../refusal.ts'

const answers: Readonly<Record<string, readonly [status: number, detail: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'The header fields of the request are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'The chunk extensions of the request are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time.'],
}

/** Written at once, the response is gone long before this. */
const CLOSE_MS = 1_000

export function answerClientError(error: Error, socket: Duplex, mayAnswer: boolean): void {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (!mayAnswer || !socket.writable || code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, detail] = answers[code] ?? [400, 'The request is not valid HTTP.']
  endWith(socket, refusal(status, detail))
}

/** The last words on a connection. Whoever does not close it then is not waited for. */
export function endWith(socket: Duplex, response: GatewayResponse): void {
  socket.on('error', () => socket.destroy())
  socket.end(rawResponse(response), 'latin1')
  setTimeout(() => socket.destroy(), CLOSE_MS).unref()
}

function rawResponse({ status, headers, body }: GatewayResponse): string {
  let text = `HTTP/1.1 ${status} \r\nconnection: close\r\ndate: ${new Date().toUTCString()}\r\n`
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return `${text}\r\n${typeof body === 'string' ? body : ''}`
}
