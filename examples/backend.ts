/**
 * A sample backend for the gateway: `GET /health`, `GET /api/resource`, and `POST /api/resource`,
 * which returns the body. Any other path returns the method and the path of the request.
 */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

const port = Number(process.env.BACKEND_PORT ?? 8081)

/** Enough for an example, and small enough to keep in memory. */
const BODY_BYTES_MAX = 1_000_000

const server = createServer((request, response) => {
  const path = request.url?.split('?')[0] ?? '/'
  if (path === '/health') return send(response, 200, { status: 'ok' })
  if (path !== '/api/resource') return send(response, 200, { method: request.method, path })
  if (request.method === 'POST') return echo(request, response)
  send(response, 200, { id: 1, name: 'sample resource', servedBy: `port ${port}` })
})

server.on('error', (error: NodeJS.ErrnoException) => {
  const isTaken = error.code === 'EADDRINUSE'
  const advice = isTaken ? 'is in use; set BACKEND_PORT to another one' : error.message
  console.error(`backend: port ${port} ${advice}`)
  process.exit(1)
})
server.listen(port, '127.0.0.1', () => console.log(`backend: http://127.0.0.1:${port}`))

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    server.close()
    server.closeIdleConnections()
  })
}

function echo(request: IncomingMessage, response: ServerResponse): void {
  const parts: Buffer[] = []
  let bytes = 0
  request.on('data', (part: Buffer) => {
    bytes += part.length
    if (bytes <= BODY_BYTES_MAX) parts.push(part)
  })
  request.on('end', () => {
    if (bytes > BODY_BYTES_MAX) return send(response, 413, { error: 'body too large' })
    response.setHeader('Content-Type', request.headers['content-type'] ?? 'text/plain')
    response.end(Buffer.concat(parts))
  })
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(`${JSON.stringify(body)}\n`)
}
