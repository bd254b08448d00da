/** A port for HTTP with caps on everything that a client can send or hold open. */

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'

export interface HttpDoor {
  readonly address: { readonly host: string; readonly port: number }
  /** Takes no more connections, and ends those that are idle or do not end in time. */
  close(): Promise<void>
}

/** Those who send less than a message in this time do not mean to. */
const REQUEST_MS_MAX = 10_000
const HEADERS_MS_MAX = 5_000
const HEADER_BYTES_MAX = 8_192

/** Envoy, probes and scrapers are few; each has a handful of connections. */
const CONNECTIONS_MAX = 1_000

const CLOSE_MS_MAX = 1_000

export async function openDoor(
  listener: RequestListener,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<HttpDoor> {
  const server = createServer(
    {
      requestTimeout: REQUEST_MS_MAX,
      headersTimeout: HEADERS_MS_MAX,
      maxHeaderSize: HEADER_BYTES_MAX,
    },
    (request, response) => {
      // Whoever goes away in the middle of an answer is no reason to end.
      response.on('error', () => undefined)
      listener(request, response)
    },
  )
  server.maxConnections = CONNECTIONS_MAX
  server.on('clientError', (_, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, resolve)
  })
  const address = server.address() as AddressInfo
  return {
    address: { host: address.address, port: address.port },
    close: () =>
      new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS_MAX)
        server.close(() => {
          clearTimeout(timer)
          resolve()
        })
        server.closeIdleConnections()
      }),
  }
}

export function pathOf({ url = '/' }: IncomingMessage): string {
  const queryAt = url.indexOf('?')
  return queryAt < 0 ? url : url.slice(0, queryAt)
}

export function sendText(response: ServerResponse, status: number, text: string): void {
  send(response, status, 'text/plain; charset=utf-8', text)
}

export function send(response: ServerResponse, status: number, type: string, body: string): void {
  if (response.headersSent) return
  const headers = { 'content-type': type, 'x-content-type-options': 'nosniff' }
  response.writeHead(status, headers).end(body)
}
