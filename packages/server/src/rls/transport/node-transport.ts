/**
 * The transport on `node:http2`: slower than Tidegate's own, and an independent implementation to
 * compare with or to switch to.
 */

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
import { shareConnections } from '../../http-api/connection-shares.ts'
import {
  type ListenAddress,
  MESSAGE_BYTES_MAX,
  MESSAGE_PREFIX_BYTES,
  type RpcCall,
  type RpcTransport,
  rpcStatus,
  type TransportSettings,
} from '../rpc.ts'
import { refusalOf } from './http2/request-streams.ts'
import { isNamed, tlsOptions, watchTls } from './tls-options.ts'

/** The memory of a session: as much as Tidegate's own transport keeps for a connection. */
const SESSION_MEGABYTES_MAX = 4

const STREAM_WINDOW_BYTES = 2 * MESSAGE_BYTES_MAX

/** These three are as in http2-listener.ts. */
const AGE_JITTER = 0.1
const CHECK_MS = 250
const PONG_MS_MAX = 20_000

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
  shareConnections(server, settings.connectionsMax)
  const sessions = new Sessions(settings)
  server.on('session', (session) => {
    if (tls !== undefined && !isNamed(session.socket as TLSSocket, tls.clientNames)) {
      session.destroy()
    } else sessions.add(session)
  })
  server.on('sessionError', () => undefined)
  server.on('tlsClientError', () => undefined)
  server.on('stream', (stream, headers) => serve(stream, headers, settings))
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
  readonly #all = new Map<ServerHttp2Session, SessionWatch>()
  readonly #timer: NodeJS.Timeout

  constructor(settings: TransportSettings) {
    this.#settings = settings
    this.#timer = setInterval(() => {
      const nowMs = Date.now()
      for (const watch of this.#all.values()) watch.check(nowMs)
    }, CHECK_MS)
    this.#timer.unref()
  }

  get size(): number {
    return this.#all.size
  }

  add(session: ServerHttp2Session): void {
    const { connectionAgeMs, connectionAgeGraceMs } = this.#settings
    this.#all.set(session, new SessionWatch(session, this.#settings))
    const spread = 1 + (AGE_JITTER * (randomInt(2_001) - 1_000)) / 1_000
    const age = setTimeout(
      () => drainSession(session, connectionAgeGraceMs),
      connectionAgeMs * spread,
    )
    age.unref()
    session.on('error', () => session.destroy())
    session.on('close', () => {
      clearTimeout(age)
      this.#all.delete(session)
    })
  }

  drain(graceMs: number): void {
    for (const session of this.#all.keys()) drainSession(session, graceMs)
    clearInterval(this.#timer)
  }
}

/**
 * Ends a session whose client sends no first frame, does not complete a header block, or does not
 * acknowledge a PING. nghttp2 counts a stream from the first frame of its header block, and reports
 * it when that is complete. Between the two, the client cannot acknowledge.
 */
class SessionWatch {
  readonly #session: ServerHttp2Session
  readonly #settings: TransportSettings
  readonly #openedMs = Date.now()
  #hasSettings = false
  #lastCompleteId = 0
  #acknowledgedMs = this.#openedMs
  #ping: { readonly sinceMs: number; readonly waitMs: number } | undefined

  constructor(session: ServerHttp2Session, settings: TransportSettings) {
    this.#session = session
    this.#settings = settings
    session.once('remoteSettings', () => {
      this.#hasSettings = true
    })
    session.on('stream', ({ id = 0 }: ServerHttp2Stream) => {
      this.#lastCompleteId = id
    })
  }

  check(nowMs: number): void {
    const { frameMs, keepAliveMs } = this.#settings
    if (this.#session.destroyed) return
    if (!this.#hasSettings) {
      if (nowMs - this.#openedMs > frameMs) this.#session.destroy()
      return
    }
    if (this.#ping !== undefined) {
      if (nowMs - this.#ping.sinceMs > this.#ping.waitMs) this.#session.destroy()
      return
    }
    const { lastProcStreamID: lastId = 0 } = this.#session.state
    if (lastId > this.#lastCompleteId) this.#sendPing(nowMs, frameMs, lastId)
    else if (nowMs - this.#acknowledgedMs > keepAliveMs) this.#sendPing(nowMs, PONG_MS_MAX, lastId)
  }

  #sendPing(sinceMs: number, waitMs: number, lastId: number): void {
    this.#ping = { sinceMs, waitMs }
    this.#session.ping((error) => {
      if (error !== null) return
      this.#ping = undefined
      this.#acknowledgedMs = Date.now()
      this.#lastCompleteId = Math.max(this.#lastCompleteId, lastId)
    })
  }
}

/** Drains a session: `close` sends GOAWAY and lets streams end. */
function drainSession(session: ServerHttp2Session, graceMs: number): void {
  if (session.destroyed) return
  session.close()
  setTimeout(() => session.destroy(), graceMs).unref()
}

function serve(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  { handler }: TransportSettings,
): void {
  const chunks: Buffer[] = []
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
  stream.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length <= MESSAGE_BYTES_MAX + MESSAGE_PREFIX_BYTES) chunks.push(chunk)
    else call.finish(rpcStatus.resourceExhausted, `more than ${MESSAGE_BYTES_MAX} bytes`)
  })
  stream.on('end', () => {
    if (!call.isOpen) return
    const [first] = chunks
    call.bytes = chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks)
    call.end = call.bytes.length
    try {
      handler(call)
    } catch {
      call.finish(rpcStatus.internal, '')
    }
  })
  stream.on('close', () => call.cancel())
}

class NodeCall implements RpcCall {
  readonly path: string
  readonly timeout: string
  readonly requestId: string
  readonly traceparent: string
  bytes: Buffer = Buffer.alloc(0)
  readonly start = 0
  end = 0
  isOpen = true
  onCancel: (() => void) | undefined
  readonly #stream: ServerHttp2Stream
  #hasHeaders = false

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders) {
    this.#stream = stream
    this.path = String(headers[':path'] ?? '')
    this.timeout = String(headers['grpc-timeout'] ?? '')
    this.requestId = String(headers['x-request-id'] ?? '')
    this.traceparent = String(headers.traceparent ?? '')
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

  cancel(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.onCancel?.()
  }
}
