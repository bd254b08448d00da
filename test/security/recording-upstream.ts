/**
 * A strict upstream: a bare server that records every byte per connection, and reads requests with
 * a parser of its own. Bytes that another server could read differently are recorded as
 * ambiguities, so that a test can expect none.
 */

import { createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { listening } from '../e2e/gateway/test-upstream.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { type RecordedRequest, RequestParser } from './request-parser.ts'

export interface RecordingUpstream {
  readonly url: string
  readonly requests: readonly RecordedRequest[]
  /** The received bytes, one text per connection. */
  readonly bytes: readonly string[]
  /** Ambiguous heads, and bytes that are not a request. */
  readonly ambiguities: readonly string[]
}

/** Returns the bytes of a response; undefined for none. */
export type Answer = (request: RecordedRequest, socket: Socket) => string | undefined

/** Names its request, so that a misrouted response is noticed. */
export const echo: Answer = ({ method, target }) => okWith(method === 'HEAD' ? '' : `<${target}>`)

export function okWith(body: string): string {
  return `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

/** Stopped when the test ends, or by `atEnd`. */
export async function startRecordingUpstream(
  answer: Answer = echo,
  atEnd: (stop: () => void) => void = onTestFinished,
): Promise<RecordingUpstream> {
  const requests: RecordedRequest[] = []
  const bytes: string[] = []
  const ambiguities: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const connection = bytes.push('') - 1
    const parser = new RequestParser()
    sockets.add(socket)
    socket.setEncoding('latin1')
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => {
      bytes[connection] = `${bytes[connection]}${chunk}`
      for (const request of parser.read(String(chunk))) {
        requests.push(request)
        const text = answer(request, socket)
        if (text !== undefined && !socket.destroyed) socket.write(text, 'latin1')
      }
      ambiguities.push(...parser.takeAmbiguities())
    })
  })
  const port = await listening(server)
  atEnd(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `http://${LOOPBACK}:${port}`, requests, bytes, ambiguities }
}
