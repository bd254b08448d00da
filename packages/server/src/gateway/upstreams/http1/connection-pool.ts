/** The connections to one server: opened on demand, reused, and closed when idle. */

import { connect as connectPlain, isIP, type Socket } from 'node:net'
import {
  type ConnectionOptions,
  checkServerIdentity,
  connect as connectTls,
  createSecureContext,
  type SecureContext,
} from 'node:tls'
import type { OutgoingRequest } from './request-writer.ts'
import {
  Connection,
  type ConnectionOwner,
  type ConnectionTimeouts,
  type ResponseHandler,
} from './upstream-connection.ts'

export interface PoolOptions {
  readonly origin: URL
  readonly timeouts: ConnectionTimeouts
  /** For https. */
  readonly tls: PoolTls | undefined
}

export interface PoolTls {
  readonly ca: Buffer | undefined
  readonly cert: Buffer | undefined
  readonly key: Buffer | undefined
  /** The name that the certificate must have. */
  readonly serverName: string
}

/**
 * All plain connections read into this buffer, and copy the bytes that they keep. Otherwise Node
 * would allocate 64 KB for each response.
 */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1_024)

/** Detects servers that vanished without closing the connection. */
const KEEP_ALIVE_PROBE_MS = 60_000

/** Timeouts are accurate to an eighth. */
const CHECKS_PER_TIMEOUT = 8

/** Timeouts below 40 ms exist only in tests. */
const CHECK_INTERVAL_MS_MIN = 5

/** Also bounds how much longer an idle connection is kept than its server allows. */
const CHECK_INTERVAL_MS_MAX = 500

export class ConnectionPool implements ConnectionOwner {
  readonly timeouts: ConnectionTimeouts
  readonly #options: PoolOptions
  readonly #connections = new Set<Connection>()
  /** The last one is reused first, so that superfluous connections time out. */
  readonly #idle: Connection[] = []
  #timer: NodeJS.Timeout | undefined
  /** Shortens the next handshake. */
  #session: Buffer | undefined
  #context: SecureContext | undefined
  #isDestroyed = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.timeouts = options.timeouts
  }

  /** Returns the connection that carries the request, to pause, resume or abort it. */
  send(request: OutgoingRequest, handler: ResponseHandler): Connection {
    // A tunnel keeps its connection, and reads it as a stream.
    const connection = (request.upgrade === undefined && this.#idle.pop()) || this.#open(request)
    connection.send(request, handler)
    return connection
  }

  /** Like `send`, without reusing a connection. */
  sendOnNewConnection(request: OutgoingRequest, handler: ResponseHandler): Connection {
    const connection = this.#open(request)
    connection.send(request, handler)
    return connection
  }

  destroy(): void {
    this.#isDestroyed = true
    for (const connection of this.#connections) {
      connection.abort(new Error('the upstream is not used any more'))
    }
  }

  onIdle(connection: Connection): void {
    if (this.#isDestroyed) connection.destroy()
    else this.#idle.push(connection)
  }

  onClosed(connection: Connection): void {
    this.#connections.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at !== -1) this.#idle.splice(at, 1)
    if (this.#connections.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #open(request: OutgoingRequest): Connection {
    const connection = new Connection(this)
    this.#connections.add(connection)
    this.#timer ??= setInterval(() => this.#checkTimeouts(), checkIntervalMs(this.timeouts)).unref()
    try {
      connection.use(this.#connect(connection, request.upgrade !== undefined))
    } catch (error) {
      // Such as an invalid certificate. The caller gets the connection before the error.
      process.nextTick(() => connection.abort(error as Error))
    }
    return connection
  }

  #connect(connection: Connection, isTunnel: boolean): Socket {
    const { tls } = this.#options
    const socket =
      tls === undefined ? this.#openPlain(connection, isTunnel) : this.#openTls(connection, tls)
    socket.setNoDelay(true)
    return socket.setKeepAlive(true, KEEP_ALIVE_PROBE_MS)
  }

  #openPlain(connection: Connection, isTunnel: boolean): Socket {
    const callback = (length: number) =>
      connection.read(readBuffer.subarray(0, length), length === readBuffer.length)
    const socket = connectPlain({
      ...this.#address(),
      ...(!isTunnel && { onread: { buffer: readBuffer, callback } }),
    })
    if (isTunnel) readEvents(socket, connection)
    return socket.once('connect', () => connection.onConnected())
  }

  #openTls(connection: Connection, { ca, cert, key, serverName }: PoolTls): Socket {
    const name = withoutBrackets(serverName)
    this.#context ??= createSecureContext({ ca, cert, key })
    const options: ConnectionOptions = {
      ...this.#address(),
      secureContext: this.#context,
      ALPNProtocols: ['http/1.1'],
      // NODE_TLS_REJECT_UNAUTHORIZED does not turn it off.
      rejectUnauthorized: true,
      checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    }
    // SNI has names only: https://www.rfc-editor.org/rfc/rfc6066#section-3
    if (isIP(name) === 0) options.servername = name
    if (this.#session !== undefined) options.session = this.#session
    const socket = connectTls(options)
    socket.on('session', (session) => {
      this.#session = session
    })
    // A session that caused an error must not be used again.
    socket.once('error', () => {
      this.#session = undefined
    })
    readEvents(socket, connection)
    return socket.once('secureConnect', () => connection.onConnected())
  }

  #address(): { host: string; port: number } {
    const { hostname, port, protocol } = this.#options.origin
    const portDefault = protocol === 'https:' ? 443 : 80
    return { host: withoutBrackets(hostname), port: port === '' ? portDefault : Number(port) }
  }

  #checkTimeouts(): void {
    const nowMs = performance.now()
    for (const connection of this.#connections) connection.checkTimeouts(nowMs)
  }
}

/** Reads the socket as a stream, for connections that are encrypted or become a tunnel. */
function readEvents(socket: Socket, connection: Connection): void {
  const onData = (bytes: Buffer) => {
    // TLS records come one by one, though several may have arrived.
    if (!connection.read(bytes, true)) socket.pause()
    // It became a tunnel, or was closed.
    if (connection.isClosed) socket.off('data', onData)
  }
  socket.on('data', onData)
}

function checkIntervalMs({ connect, response, idle }: ConnectionTimeouts): number {
  const ms = Math.min(connect, response, idle) / CHECKS_PER_TIMEOUT
  return Math.min(Math.max(ms, CHECK_INTERVAL_MS_MIN), CHECK_INTERVAL_MS_MAX)
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}
