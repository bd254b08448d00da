/** A listener for HTTP with caps on everything that a client can send or hold open. */

import { createServer, type Server as HttpServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { shareConnections } from './connection-shares.ts'
import type { ConnectionSource } from './handed-connections.ts'

export interface RunningListener {
  readonly address: { readonly host: string; readonly port: number }
  /** Accepts no more connections, and ends those that are idle or do not end in time. */
  close(): Promise<void>
}

/** A client that has not sent a whole request by then is too slow or hostile. */
const REQUEST_MS_MAX = 10_000
const HEADERS_MS_MAX = 5_000

/** Tokens and the headers of proxies take less than half of it. */
const HEADER_BYTES_MAX = 8_192

/** How late the two timeouts above may be noticed. The default of Node is 30 s. */
const CHECK_INTERVAL_MS = 1_000

/** Without a byte in either direction. No handler takes that long: the client has disconnected. */
const IDLE_MS_MAX = 30_000

/** Envoy, probes and scrapers are few; each has a handful of connections. One address gets half. */
const CONNECTIONS_MAX = 1_000

/** Handlers answer within milliseconds. */
const CLOSE_MS_MAX = 1_000

export interface ListenerTls {
  readonly cert: Buffer
  readonly key: Buffer
  /** Asks clients for a certificate that one of these has signed, and also admits others. */
  readonly clientCa: Buffer | undefined
}

export interface ListenOptions {
  readonly host: string
  readonly port: number
  readonly tls?: ListenerTls | undefined
  /** Default: a socket of this process. */
  readonly connections?: ConnectionSource | undefined
}

const bounds = {
  requestTimeout: REQUEST_MS_MAX,
  headersTimeout: HEADERS_MS_MAX,
  maxHeaderSize: HEADER_BYTES_MAX,
  connectionsCheckingInterval: CHECK_INTERVAL_MS,
} as const

export async function listen(
  handler: RequestListener,
  { host, port, tls, connections }: ListenOptions,
): Promise<RunningListener> {
  const onRequest: RequestListener = (request, response) => {
    // A client that disconnects in the middle of a response must not end the process.
    response.on('error', () => undefined)
    handler(request, response)
  }
  const server =
    tls === undefined
      ? createServer(bounds, onRequest)
      : createTlsServer({ ...bounds, ...tlsOptions(tls) }, onRequest)
  server.timeout = IDLE_MS_MAX
  shareConnections(server, CONNECTIONS_MAX)
  server.on('clientError', (_, socket) => socket.destroy())
  if (connections !== undefined) return listenThrough(connections, server, { host, port })
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

/** Serves connections that another process accepts. The server has no socket that it waits for. */
async function listenThrough(
  connections: ConnectionSource,
  server: HttpServer,
  place: { readonly host: string; readonly port: number },
): Promise<RunningListener> {
  const open = new Set<Socket>()
  const drained = Promise.withResolvers<void>()
  let isClosed = false
  // With this event, the server begins to watch the timeouts of its requests.
  server.emit('listening')
  const address = await connections.listen(place, (socket) => {
    open.add(socket)
    socket.once('close', () => {
      open.delete(socket)
      if (isClosed && open.size === 0) drained.resolve()
    })
    server.emit('connection', socket)
  })
  return {
    address,
    async close() {
      const late = Promise.withResolvers<void>()
      const timer = setTimeout(() => {
        for (const socket of open) socket.destroy()
        late.resolve()
      }, CLOSE_MS_MAX)
      await Promise.race([connections.close(), late.promise])
      isClosed = true
      server.closeIdleConnections()
      if (open.size > 0) await Promise.race([drained.promise, late.promise])
      clearTimeout(timer)
      server.close()
    },
  }
}

/** Handlers find out whether a certificate was verified, because a token is enough without one. */
function tlsOptions({ cert, key, clientCa }: ListenerTls) {
  const asks = { requestCert: true, rejectUnauthorized: false, ca: clientCa }
  return { cert, key, minVersion: 'TLSv1.2' as const, ...(clientCa !== undefined && asks) }
}
