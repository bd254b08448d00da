/**
 * An upstream that trusts nobody: a bare server that keeps every byte that it gets, connection by
 * connection, and reads requests out of them with a parser of its own. What it finds that a second
 * server could read differently is kept as an ambiguity, so that a test can ask for none.
 */

import { createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { listening } from '../gateway/test-upstream.ts'
import { LOOPBACK } from '../servers/ports.ts'
import { type RecordedRequest, RequestParser } from './request-parser.ts'

export interface RecordingUpstream {
  readonly url: string
  readonly requests: readonly RecordedRequest[]
  /** All that came, one text for each connection. */
  readonly bytes: readonly string[]
  /** Heads that two servers could read in two ways, and bytes that are no request. */
  readonly ambiguities: readonly string[]
}

/** The bytes of an answer; undefined for none. */
export type Answer = (request: RecordedRequest, socket: Socket) => string | undefined

/** Says which request it is for, so that an answer that went astray is noticed. */
export const echo: Answer = ({ method, target }) => okWith(method === 'HEAD' ? '' : `<${target}>`)

export function okWith(body: string): string {
  return `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

/** Stopped when the test ends, or when the caller says. */
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
