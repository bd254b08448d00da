/** The connections to one server: opened as they are needed, used again, given up when idle. */

import { connect as connectPlain, isIP, type Socket } from 'node:net'
import {
  type ConnectionOptions,
  checkServerIdentity,
  connect as connectTls,
  createSecureContext,
  type SecureContext,
} from 'node:tls'
import {
  type AnswerHandler,
  Connection,
  type ConnectionOwner,
  type ConnectionTimeouts,
} from './connection.ts'
import type { OutgoingRequest } from './request-writer.ts'

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
  /** Whose certificate is expected. */
  readonly serverName: string
}

/**
 * What all plain connections read into, one after the other: what is to stay is copied. Else a
 * buffer would be made for every answer, large enough for any.
 */
const pieceBuffer = Buffer.allocUnsafeSlow(64 * 1_024)

/** Of connections that have vanished without a word. */
const KEEP_ALIVE_PROBE_MS = 60_000

/** Times are kept to within an eighth. */
const LOOKS_PER_TIMEOUT = 8
const LOOK_INTERVAL_MS_MIN = 5
const LOOK_INTERVAL_MS_MAX = 500

export class ConnectionPool implements ConnectionOwner {
  readonly timeouts: ConnectionTimeouts
  readonly #options: PoolOptions
  readonly #connections = new Set<Connection>()
  /** The one that was used last is the next to be used, so that those too many become idle. */
  readonly #idle: Connection[] = []
  #looking: NodeJS.Timeout | undefined
  /** With it the next handshake is shorter. */
  #session: Buffer | undefined
  #context: SecureContext | undefined
  #isDestroyed = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.timeouts = options.timeouts
  }

  /** The connection that it travels on, to pause, resume or abort. */
  send(request: OutgoingRequest, handler: AnswerHandler): Connection {
    // Who switches protocols keeps the connection, and reads from it in another way.
    const connection = (request.upgrade === undefined && this.#takeIdle()) || this.#open(request)
    connection.send(request, handler)
    return connection
  }

  /** The same, on a new connection. */
  sendApart(request: OutgoingRequest, handler: AnswerHandler): Connection {
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

  hasBecomeIdle(connection: Connection): void {
    if (this.#isDestroyed) connection.destroy()
    else this.#idle.push(connection)
  }

  hasGone(connection: Connection): void {
    this.#connections.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at !== -1) this.#idle.splice(at, 1)
    if (this.#connections.size > 0) return
    clearInterval(this.#looking)
    this.#looking = undefined
  }

  #takeIdle(): Connection | undefined {
    return this.#idle.pop()
  }

  #open(request: OutgoingRequest): Connection {
    const connection = new Connection(this)
    this.#connections.add(connection)
    this.#looking ??= setInterval(() => this.#look(), lookIntervalMs(this.timeouts)).unref()
    try {
      connection.use(this.#connect(connection, request.upgrade !== undefined))
    } catch (error) {
      // Such as certificates that are none. Whoever asks is told once it has the connection.
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
      connection.read(pieceBuffer.subarray(0, length), length === pieceBuffer.length)
    const socket = connectPlain({
      ...this.#place(),
      ...(!isTunnel && { onread: { buffer: pieceBuffer, callback } }),
    })
    if (isTunnel) readEvents(socket, connection)
    return socket.once('connect', () => connection.hasConnected())
  }

  #openTls(connection: Connection, { ca, cert, key, serverName }: PoolTls): Socket {
    const name = withoutBrackets(serverName)
    this.#context ??= createSecureContext({ ca, cert, key })
    const options: ConnectionOptions = {
      ...this.#place(),
      secureContext: this.#context,
      ALPNProtocols: ['http/1.1'],
      // Whatever the environment says.
      rejectUnauthorized: true,
      checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    }
    // An address is nothing to ask a server for.
    if (isIP(name) === 0) options.servername = name
    if (this.#session !== undefined) options.session = this.#session
    const socket = connectTls(options)
    socket.on('session', (session) => {
      this.#session = session
    })
    // One that did not work must not be tried again and again.
    socket.once('error', () => {
      this.#session = undefined
    })
    readEvents(socket, connection)
    return socket.once('secureConnect', () => connection.hasConnected())
  }

  #place(): { host: string; port: number } {
    const { hostname, port, protocol } = this.#options.origin
    const portDefault = protocol === 'https:' ? 443 : 80
    return { host: withoutBrackets(hostname), port: port === '' ? portDefault : Number(port) }
  }

  #look(): void {
    const nowMs = performance.now()
    for (const connection of this.#connections) connection.look(nowMs)
  }
}

/** As a stream reads, for what is encrypted or will be a tunnel. */
function readEvents(socket: Socket, connection: Connection): void {
  const onData = (piece: Buffer) => {
    // Records and buffered pieces come one by one, though they are all here.
    if (!connection.read(piece, true)) socket.pause()
    // A tunnel from here on, or gone.
    if (connection.isGone) socket.off('data', onData)
  }
  socket.on('data', onData)
}

function lookIntervalMs({ connect, response, idle }: ConnectionTimeouts): number {
  const ms = Math.min(connect, response, idle) / LOOKS_PER_TIMEOUT
  return Math.min(Math.max(ms, LOOK_INTERVAL_MS_MIN), LOOK_INTERVAL_MS_MAX)
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}
