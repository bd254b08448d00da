/** The compared servers: the requests that each reads from the same bytes. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { listening } from '../e2e/gateway/test-upstream.ts'
import { startRecordingUpstream } from '../security/recording-upstream.ts'
import { nginxBinary, startNginx } from '../support/servers/nginx.ts'
import { LOOPBACK } from '../support/servers/ports.ts'

export interface SeenRequest {
  readonly method: string
  /** Exactly as in the request line. */
  readonly target: string
  readonly host: string
  readonly body: string
}

export interface Outcome {
  /** Requests that were complete, in their order. */
  readonly seen: readonly SeenRequest[]
  /** Final statuses. */
  readonly statuses: readonly number[]
}

/** A server for one connection at a time. */
export interface ComparedServer {
  readonly port: number
  /** Returns and clears the requests since the last call. */
  take(): readonly SeenRequest[]
}

export interface Lane {
  readonly gateway: ComparedServer
  readonly node: ComparedServer
  /** Undefined if there is no nginx on this machine. */
  readonly nginx: ComparedServer | undefined
}

export type AtEnd = (stop: () => void | Promise<void>) => void

/** Longer than any stream takes: the client ends a connection on which nothing happens. */
export const timeouts = { headers: '60s', request: '60s', keepAlive: '60s' }

/** Each lane compares by itself; the lanes share one nginx. */
export async function startLanes(count: number, atEnd: AtEnd): Promise<readonly Lane[]> {
  const places = Array.from({ length: count })
  const gateways = await Promise.all(places.map(() => gatewayServer(atEnd)))
  const nodes = await Promise.all(places.map(() => nodeServer(atEnd)))
  const nginxes = nginxBinary() === undefined ? [] : await nginxServers(count, atEnd)
  return places.map((_, at) => ({
    gateway: gateways[at] as ComparedServer,
    node: nodes[at] as ComparedServer,
    nginx: nginxes[at],
  }))
}

export async function recorder(atEnd: AtEnd) {
  const upstream = await startRecordingUpstream(undefined, atEnd)
  let taken = 0
  const take = () => {
    const some = upstream.requests.slice(taken)
    taken = upstream.requests.length
    return some.map(({ method, target, fields, body }) => {
      const host = fields.find(([name]) => name === 'host')?.[1] ?? ''
      return { method, target, host, body }
    })
  }
  return { upstream, take }
}

async function gatewayServer(atEnd: AtEnd): Promise<ComparedServer> {
  const { upstream, take } = await recorder(atEnd)
  const upstreams = { api: { targets: [upstream.url], retries: 0 } }
  const { port } = await startTestGateway({ gateway: { timeouts }, upstreams })
  return { port, take }
}

async function nginxServers(count: number, atEnd: AtEnd): Promise<ComparedServer[]> {
  const recorders = await Promise.all(Array.from({ length: count }, () => recorder(atEnd)))
  const upstreams = recorders.map(({ upstream }) => upstream.url)
  const ports = await startNginx({ upstreams, atEnd })
  return recorders.map(({ take }, at) => ({ port: ports[at] as number, take }))
}

async function nodeServer(atEnd: AtEnd): Promise<ComparedServer> {
  let seen: (SeenRequest | undefined)[] = []
  const keep = (request: IncomingMessage, response: ServerResponse) => {
    const requests = seen
    const at = requests.push(undefined) - 1
    let body = ''
    request.setEncoding('latin1')
    request.on('error', () => undefined)
    request.on('data', (text) => {
      body += text
    })
    request.on('end', () => {
      const { method = '', url: target = '', headers, complete } = request
      if (complete) requests[at] = { method, target, host: headers.host ?? '', body }
      response.end('ok')
    })
  }
  const server = createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 }, keep)
  const port = await listening(server)
  atEnd(() => {
    server.closeAllConnections()
    server.close()
  })
  const take = () => {
    const some = seen.filter((request) => request !== undefined)
    seen = []
    return some
  }
  return { port, take }
}

/**
 * Sends the pieces and reads until the server closes the connection, or until nothing has happened
 * for `quietMs`, which ends the connection.
 */
export function converse(
  server: ComparedServer,
  pieces: readonly string[],
  quietMs: number,
): Promise<Outcome> {
  server.take()
  return new Promise((resolve) => {
    const socket = connect({ port: server.port, host: LOOPBACK, noDelay: true })
    let received = ''
    let timer = setTimeout(() => socket.destroy(), quietMs)
    const onActivity = () => {
      clearTimeout(timer)
      timer = setTimeout(() => socket.destroy(), quietMs)
    }
    socket.setEncoding('latin1')
    socket.on('error', () => undefined)
    socket.on('data', (text) => {
      received += text
      onActivity()
    })
    socket.on('close', () => {
      clearTimeout(timer)
      resolve({ seen: server.take(), statuses: statusesIn(received) })
    })
    socket.on('connect', async () => {
      for (const piece of pieces) {
        if (socket.destroyed) return
        socket.write(piece, 'latin1')
        onActivity()
        await new Promise((next) => setImmediate(next))
      }
    })
  })
}

/** No body of these responses looks like a head. */
function statusesIn(received: string): number[] {
  return Array.from(received.matchAll(/HTTP\/1\.[01] ([2-5]\d\d)/g), ([, status]) => Number(status))
}
