/** Upstreams for tests: one of node:http that records its requests, and one of bare sockets. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createSocketServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { LOOPBACK } from '../../support/servers/ports.ts'

export interface SeenRequest {
  readonly method: string
  /** Path and query, exactly as they came. */
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly body: string
}

export interface TestUpstream {
  readonly url: string
  readonly server: Server
  readonly seen: readonly SeenRequest[]
}

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void

const answerOk: Answer = (_request, response) => void response.end('from the upstream')

/** Stopped when the test ends. */
export async function startUpstream(answer: Answer = answerOk): Promise<TestUpstream> {
  const seen: SeenRequest[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('latin1')
    request.on('data', (text) => {
      body += text
    })
    request.on('end', () => {
      const { method = '', url = '', headers, rawHeaders } = request
      seen.push({ method, url, headers, rawHeaders, body })
      answer(request, response, body)
    })
  })
  const port = await listening(server)
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://${LOOPBACK}:${port}`, server, seen }
}

export interface RawUpstream {
  readonly url: string
  /** The received bytes of all connections. */
  readonly received: () => string
  readonly connections: () => number
}

/** Answers with raw bytes, and records the bytes that it gets. */
export async function startRawUpstream(
  onData: (socket: Socket, text: string) => void,
): Promise<RawUpstream> {
  let received = ''
  let connections = 0
  const sockets = new Set<Socket>()
  const server = createSocketServer((socket) => {
    connections += 1
    sockets.add(socket)
    socket.setEncoding('latin1')
    socket.on('error', () => socket.destroy())
    socket.on('data', (text) => {
      received += text
      onData(socket, String(text))
    })
  })
  const port = await listening(server)
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    url: `http://${LOOPBACK}:${port}`,
    received: () => received,
    connections: () => connections,
  }
}

export function listening(server: {
  listen(port: number, host: string, done: () => void): unknown
  address(): AddressInfo | string | null
}): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, LOOPBACK, () => {
      const address = server.address()
      resolve(typeof address === 'object' ? (address?.port ?? 0) : 0)
    })
  })
}
