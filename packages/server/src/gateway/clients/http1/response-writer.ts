/** Writes a response to its connection: at once if it is complete, or as it arrives. */

import type { Socket } from 'node:net'
import { type Ending, type MessageOwner, writeMessage } from '../../http1/message-writer.ts'
import type { GatewayResponse } from '../../message.ts'
import { headText } from './response-text.ts'

/** Up to this size, a body is written with its head as one text; a larger copy costs more. */
const JOINED_BYTES_MAX = 8 * 1_024

/** Returns a small body that is complete, as latin1 text. */
export function wholeBody({ body }: GatewayResponse): string | undefined {
  if (body === undefined || typeof body === 'string') return body ?? ''
  const bytes = Buffer.isBuffer(body) ? body : body.whole(JOINED_BYTES_MAX)
  if (bytes === undefined || bytes.length > JOINED_BYTES_MAX) return undefined
  return bytes.toString('latin1')
}

/** Keeps the text of a shared response. */
export function writeWhole(
  socket: Socket,
  response: GatewayResponse,
  body: string,
  { method, keptSeconds }: { method: string; keptSeconds: number | undefined },
): void {
  const hasNone = isBodiless(method, response.status)
  const isPlain = keptSeconds !== undefined && !hasNone
  if (isPlain && response.wireText !== undefined) {
    socket.write(response.wireText, 'latin1')
    return
  }
  const bodyBytes = hasNone ? undefined : body.length
  const head = headText(response, { ending: 'length', bodyBytes, keptSeconds })
  const text = hasNone ? head : head + body
  if (isPlain && response.isShared) response.wireText = text
  socket.write(text, 'latin1')
}

export function endingOf(
  { headers, body, status }: GatewayResponse,
  method: string,
  isHttp11: boolean,
): Ending {
  if (isBodiless(method, status)) return 'none'
  if (Buffer.isBuffer(body)) return 'length'
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === 'content-length') return 'length'
  }
  return isHttp11 ? 'chunks' : 'close'
}

export function writeArriving(
  socket: Socket,
  response: GatewayResponse,
  { ending, keptSeconds }: { ending: Ending; keptSeconds: number | undefined },
  owner: MessageOwner,
): void {
  const { body } = response
  if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) {
    const bodyBytes = ending === 'none' ? undefined : (body?.length ?? 0)
    socket.cork()
    socket.write(headText(response, { ending, bodyBytes, keptSeconds }), 'latin1')
    if (body !== undefined && ending !== 'none') socket.write(body)
    socket.uncork()
    owner.onWritten()
    return
  }
  const head = headText(response, { ending, bodyBytes: undefined, keptSeconds })
  writeMessage(socket, { head, body, ending }, owner)
}

/** https://www.rfc-editor.org/rfc/rfc9110#section-6.4.1 */
function isBodiless(method: string, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}
