/**
 * Sends an answer that is given many times, from one text that is kept with it. node:http would put
 * the same head together each time, and check every field of it. It takes a head that is there
 * already, though this is not documented; where a version should not, the ordinary way is gone.
 */

import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import type { GatewayResponse } from '../message.ts'
import type { NodeRequest } from './node-request.ts'
import type { RespondOptions } from './respond.ts'
import { giveUpIfStalled } from './stalled.ts'

const HEAD = '_header'

const takesHead = Object.hasOwn(new ServerResponse(new IncomingMessage(new Socket())), HEAD)

/** False where the answer cannot be sent this way. */
export function sendShared(
  { outgoing, incoming, hasBody, connection }: NodeRequest,
  response: GatewayResponse,
  { isClosing, keepAliveMs, slowClients }: RespondOptions,
): boolean {
  if (!takesHead || !(outgoing instanceof ServerResponse) || typeof response.body !== 'string') {
    return false
  }
  const isPlain = !isClosing && !hasBody && incoming.httpVersionMinor === 1
  if (!isPlain || !outgoing.shouldKeepAlive || connection.isDiscarding) return false
  response.wireHead ??= wireHead(response, keepAliveMs)
  outgoing.statusCode = response.status
  Reflect.set(outgoing, HEAD, response.wireHead)
  outgoing.end(response.body, 'latin1')
  giveUpIfStalled(outgoing, slowClients)
  return true
}

function wireHead({ status, headers }: GatewayResponse, keepAliveMs: number): string {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`]
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`)
  const seconds = Math.floor(keepAliveMs / 1_000)
  lines.push(`date: ${new Date().toUTCString()}`, 'connection: keep-alive')
  lines.push(`keep-alive: timeout=${seconds}`, '', '')
  return lines.join('\r\n')
}
