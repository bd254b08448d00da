/** The compared HTTP/2 servers, and a client that sends them bytes. */

import { readFileSync } from 'node:fs'
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2'
import { connect } from 'node:tls'
import {
  errorCodes,
  FRAME_HEADER_BYTES,
  flags,
  frame,
  frameTypes,
} from '../../packages/server/src/rls/transport/http2/frames.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { listening } from '../e2e/gateway/test-upstream.ts'
import { makeTls } from '../security/frame-client.ts'
import { nginxBinary, startNginx } from '../support/servers/nginx.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { LAST_STREAM } from './frame-sequences.ts'
import {
  type AtEnd,
  type ComparedServer,
  type Lane,
  recorder,
  type SeenRequest,
  timeouts,
} from './http1-servers.ts'

export interface Http2Outcome {
  readonly seen: readonly SeenRequest[]
  /** Codes of resets, and of GOAWAY as negative numbers; NO_ERROR is left out. */
  readonly errors: readonly number[]
}

export async function startHttp2Lanes(count: number, atEnd: AtEnd): Promise<readonly Lane[]> {
  const places = Array.from({ length: count })
  const { tls } = makeTls(atEnd)
  const gateways = await Promise.all(places.map(() => gatewayServer(tls, atEnd)))
  const nodes = await Promise.all(places.map(() => nodeServer(tls, atEnd)))
  const recorders = await Promise.all(places.map(() => recorder(atEnd)))
  const upstreams = recorders.map(({ upstream }) => upstream.url)
  const hasNginx = nginxBinary() !== undefined
  const ports = hasNginx ? await startNginx({ upstreams, tls, atEnd }) : []
  return places.map((_, at) => {
    const port = ports[at]
    const take = recorders[at]?.take ?? (() => [])
    const [gateway, node] = [gateways[at] as ComparedServer, nodes[at] as ComparedServer]
    return { gateway, node, nginx: port === undefined ? undefined : { port, take } }
  })
}

type Tls = { readonly cert: string; readonly key: string }

async function gatewayServer(tls: Tls, atEnd: AtEnd): Promise<ComparedServer> {
  const { upstream, take } = await recorder(atEnd)
  const upstreams = { api: { targets: [upstream.url], retries: 0 } }
  const { port } = await startTestGateway({ gateway: { tls, timeouts }, upstreams })
  return { port, take }
}

async function nodeServer({ cert, key }: Tls, atEnd: AtEnd): Promise<ComparedServer> {
  let seen: (SeenRequest | undefined)[] = []
  const keep = (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const requests = seen
    const at = requests.push(undefined) - 1
    let body = ''
    request.setEncoding('latin1')
    request.on('error', () => undefined)
    response.on('error', () => undefined)
    request.on('data', (text) => {
      body += text
    })
    request.on('end', () => {
      const { method, url: target, authority, headers, complete } = request
      const host = authority || (headers.host ?? '')
      if (complete) requests[at] = { method, target: target ?? '', host, body }
      if (!response.stream?.destroyed) response.end('ok')
    })
  }
  const server = createSecureServer({ cert: readFileSync(cert), key: readFileSync(key) })
  for (const event of ['request', 'checkExpectation']) server.on(event, keep)
  server.on('sessionError', () => undefined)
  const sessions = new Set<{ destroy(): void }>()
  server.on('session', (session) => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
  })
  const port = await listening(server)
  atEnd(() => {
    for (const session of sessions) session.destroy()
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
 * After the last response, for requests of other streams that are still on their way: 30 ms, and
 * half a second if a difference is looked at again.
 */
const AFTER_LAST_SHARE = 0.1

/**
 * Sends the bytes and reads until the last stream has ended, the connection is closed, or nothing
 * has happened for `quietMs`.
 */
export function converseHttp2(
  server: ComparedServer,
  bytes: Buffer,
  quietMs: number,
): Promise<Http2Outcome> {
  server.take()
  return new Promise((resolve) => {
    const socket = connect({
      ...{ port: server.port, host: LOOPBACK, ALPNProtocols: ['h2'], rejectUnauthorized: false },
    })
    const errors: number[] = []
    let rest = Buffer.alloc(0)
    let timer = setTimeout(() => socket.destroy(), quietMs)
    const endIn = (ms: number) => {
      clearTimeout(timer)
      timer = setTimeout(() => socket.destroy(), ms)
    }
    const onFrame = (type: number, flag: number, id: number, payload: Buffer) => {
      if (type === frameTypes.goAway) errors.push(-payload.readUInt32BE(4))
      if (type === frameTypes.reset) errors.push(payload.readUInt32BE(0))
      if (type === frameTypes.settings && (flag & flags.ack) === 0) {
        socket.write(frame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)))
      }
      const mayEnd = type === frameTypes.headers || type === frameTypes.data
      const isEnd = type === frameTypes.reset || (mayEnd && (flag & flags.endStream) !== 0)
      endIn(isEnd && id === LAST_STREAM ? AFTER_LAST_SHARE * quietMs : quietMs)
    }
    socket.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk])
      for (;;) {
        const end =
          rest.length < FRAME_HEADER_BYTES ? Infinity : FRAME_HEADER_BYTES + rest.readUIntBE(0, 3)
        if (rest.length < end) return
        const id = rest.readUInt32BE(5) & 0x7fff_ffff
        onFrame(rest.readUInt8(3), rest.readUInt8(4), id, rest.subarray(FRAME_HEADER_BYTES, end))
        rest = rest.subarray(end)
      }
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearTimeout(timer)
      const real = errors.filter((code) => Math.abs(code) !== errorCodes.none)
      resolve({ seen: server.take(), errors: real })
    })
    socket.once('secureConnect', () => socket.write(bytes))
  })
}
