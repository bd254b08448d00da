/** A small listener for those who run the service: `/status`, `/health` and `/ready`. */

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface AdminOptions {
  readonly host: string
  readonly port: number
  status(): object
  isReady(): boolean
}

export interface RunningAdmin {
  readonly address: AddressInfo
  close(): Promise<void>
}

const CONNECTIONS_MAX = 100
const REQUEST_TIMEOUT_MS = 5_000

export async function startAdmin(options: AdminOptions): Promise<RunningAdmin> {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    response.on('error', () => undefined)
    if (request.method !== 'GET') return send(response, 405, { status: 'use GET' })
    if (request.url === '/health') return send(response, 200, { status: 'ok' })
    if (request.url === '/status') return send(response, 200, options.status())
    if (request.url !== '/ready') return send(response, 404, { status: 'not found' })
    const isReady = options.isReady()
    send(response, isReady ? 200 : 503, { status: isReady ? 'ready' : 'not ready' })
  })
  server.headersTimeout = REQUEST_TIMEOUT_MS
  server.maxConnections = CONNECTIONS_MAX
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, () => resolve())
  })
  return {
    address: server.address() as AddressInfo,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  const text = `${JSON.stringify(body, null, 2)}\n`
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }
  response.writeHead(status, headers).end(text)
}
