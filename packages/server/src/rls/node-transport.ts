/** The same contract on `node:http2`: slower, and the implementation that everybody knows. */

import { randomInt } from 'node:crypto'
import {
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { refusalOf } from './http2/request-streams.ts'
import {
  type ListenAddress,
  MESSAGE_BYTES_MAX,
  MESSAGE_PREFIX_BYTES,
  type RpcCall,
  type RpcTransport,
  rpcStatus,
  type TransportSettings,
} from './rpc.ts'
import { isNamed, tlsOptions, watchTls } from './tls-files.ts'

/** As much as our own transport keeps for a connection. */
const SESSION_MEGABYTES_MAX = 4

const STREAM_WINDOW_BYTES = 2 * MESSAGE_BYTES_MAX

const AGE_JITTER = 0.1

export async function listenNode(
  address: ListenAddress,
  settings: TransportSettings,
): Promise<RpcTransport> {
  const { tls } = settings
  const options = {
    maxSessionMemory: SESSION_MEGABYTES_MAX,
    maxSendHeaderBlockLength: 16_384,
    settings: {
      maxConcurrentStreams: settings.streamsMax,
      initialWindowSize: STREAM_WINDOW_BYTES,
      maxHeaderListSize: 16_384,
    },
  }
  const server: Http2Server =
    tls === undefined
      ? createServer(options)
      : createSecureServer({ ...options, ...tlsOptions(tls), allowHTTP1: false })
  server.maxConnections = settings.connectionsMax
  const sessions = new Sessions(settings)
  server.on('session', (session) => {
    if (tls !== undefined && !isNamed(session.socket as TLSSocket, tls.clientNames)) {
      session.destroy()
    } else sessions.add(session)
  })
  server.on('sessionError', () => undefined)
  server.on('tlsClientError', () => undefined)
  server.on('stream', (stream, headers) => take(stream, headers, settings))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen('path' in address ? { path: address.path } : { ...address }, resolve)
  })
  server.removeAllListeners('error')
  server.on('error', () => undefined)
  const unwatch = tls === undefined ? () => undefined : watchTls(server, tls)
  const at = server.address() as AddressInfo | string
  return {
    address: typeof at === 'string' ? { path: at } : { host: at.address, port: at.port },
    get connections() {
      return sessions.size
    },
    drain: async (graceMs) => {
      unwatch()
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      sessions.drain(graceMs)
      await closed
    },
  }
}

class Sessions {
  readonly #settings: TransportSettings
  readonly #all = new Set<ServerHttp2Session>()

  constructor(settings: TransportSettings) {
    this.#settings = settings
  }

  get size(): number {
    return this.#all.size
  }

  add(session: ServerHttp2Session): void {
    const { connectionAgeMs, connectionAgeGraceMs, keepAliveMs } = this.#settings
    this.#all.add(session)
    const spread = 1 + (AGE_JITTER * (randomInt(2_001) - 1_000)) / 1_000
    const age = setTimeout(() => retire(session, connectionAgeGraceMs), connectionAgeMs * spread)
    age.unref()
    session.setTimeout(keepAliveMs, () => {
      if (!session.destroyed) session.ping((error) => error !== null && session.destroy())
    })
    session.on('error', () => session.destroy())
    session.on('close', () => {
      clearTimeout(age)
      this.#all.delete(session)
    })
  }

  drain(graceMs: number): void {
    for (const session of this.#all) retire(session, graceMs)
  }
}

/** `close` sends GOAWAY and lets streams end. */
function retire(session: ServerHttp2Session, graceMs: number): void {
  if (session.destroyed) return
  session.close()
  setTimeout(() => session.destroy(), graceMs).unref()
}

function take(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  { handler }: TransportSettings,
): void {
  const parts: Buffer[] = []
  let length = 0
  stream.on('error', () => undefined)
  const refusal = refusalOf({
    method: String(headers[':method'] ?? ''),
    contentType: headers['content-type'] ?? '',
  })
  if (refusal !== undefined) {
    stream.respond({ ':status': refusal })
    stream.end('gRPC only\n')
    return
  }
  const call = new NodeCall(stream, headers)
  stream.on('data', (part: Buffer) => {
    length += part.length
    if (length <= MESSAGE_BYTES_MAX + MESSAGE_PREFIX_BYTES) parts.push(part)
    else call.finish(rpcStatus.resourceExhausted, `more than ${MESSAGE_BYTES_MAX} bytes`)
  })
  stream.on('end', () => {
    if (!call.isOpen) return
    const [first] = parts
    call.bytes = parts.length === 1 && first !== undefined ? first : Buffer.concat(parts)
    call.end = call.bytes.length
    try {
      handler(call)
    } catch {
      call.finish(rpcStatus.internal, '')
    }
  })
  stream.on('close', () => call.gone())
}

class NodeCall implements RpcCall {
  readonly path: string
  readonly timeout: string
  bytes: Buffer = Buffer.alloc(0)
  readonly start = 0
  end = 0
  isOpen = true
  onGone: (() => void) | undefined
  readonly #stream: ServerHttp2Stream
  #hasHeaders = false

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders) {
    this.#stream = stream
    this.path = String(headers[':path'] ?? '')
    this.timeout = String(headers['grpc-timeout'] ?? '')
  }

  reply(message: Uint8Array, length: number): void {
    this.send(message.subarray(0, length))
    this.finish(rpcStatus.ok, '')
  }

  send(message: Uint8Array): void {
    if (!this.isOpen || this.#stream.destroyed) return
    if (!this.#hasHeaders) {
      this.#hasHeaders = true
      const headers = { ':status': 200, 'content-type': 'application/grpc' }
      this.#stream.respond(headers, { waitForTrailers: true })
    }
    const data = Buffer.alloc(MESSAGE_PREFIX_BYTES + message.length)
    data.writeUInt32BE(message.length, 1)
    data.set(message, MESSAGE_PREFIX_BYTES)
    this.#stream.write(data)
  }

  finish(status: number, text: string): void {
    if (!this.isOpen || this.#stream.destroyed) return
    this.isOpen = false
    const trailers = {
      'grpc-status': String(status),
      ...(text === '' ? undefined : { 'grpc-message': encodeURIComponent(text) }),
    }
    if (this.#hasHeaders) {
      this.#stream.once('wantTrailers', () => this.#stream.sendTrailers(trailers))
      this.#stream.end()
      return
    }
    const headers = {
      ':status': 200,
      'content-type': 'application/grpc',
      'grpc-accept-encoding': 'identity',
    }
    this.#stream.respond({ ...headers, ...trailers }, { endStream: true })
  }

  gone(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.onGone?.()
  }
}
