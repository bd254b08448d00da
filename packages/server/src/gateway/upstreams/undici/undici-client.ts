/**
 * Connections to one server over undici: opened when needed, used again, closed when idle. Each is
 * a `Client` of undici with at most one request, so that a request that is aborted takes only its
 * own connection with it. The pool of undici would queue aborted requests behind a slow connect.
 */

import { isIP, type Socket } from 'node:net'
import { checkServerIdentity } from 'node:tls'
import { buildConnector, Client } from 'undici'
import type { PoolOptions } from '../http1/connection-pool.ts'
import type { OutgoingRequest } from '../http1/request-writer.ts'
import type { ResponseHandler } from '../http1/upstream-connection.ts'
import type { UpstreamCall, UpstreamClient } from '../upstream-client.ts'
import { UndiciCall, type UndiciConnection } from './undici-call.ts'

/** Response heads of real servers are far smaller; larger ones would only fill memory. */
const HEAD_BYTES_MAX = 64 * 1_024

/** Used if a server does not announce how long it keeps an idle connection. */
const KEEP_ALIVE_MS_DEFAULT = 4_000

/** Servers that announce more are not believed: firewalls forget idle connections. */
const KEEP_ALIVE_MS_MAX = 600_000

/** Closes before the server does, so that no request meets a connection that is being closed. */
const KEEP_ALIVE_MARGIN_MS = 1_000

/** Timeouts are kept to within an eighth. */
const CHECKS_PER_TIMEOUT = 8

/** More checks would not make the shortest timeouts more exact: timers have milliseconds. */
const CHECK_INTERVAL_MS_MIN = 5

/** Long timeouts are kept to within half a second. */
const CHECK_INTERVAL_MS_MAX = 500

export class UndiciClient implements UpstreamClient {
  readonly #options: PoolOptions
  readonly #serverName: string
  readonly #connect: (options: buildConnector.Options, done: buildConnector.Callback) => unknown
  readonly #calls = new Set<UndiciCall>()
  /** The connection that was used last is taken first, so that surplus ones become idle. */
  readonly #idle: UndiciConnection[] = []
  #timer: NodeJS.Timeout | undefined
  #isDestroyed = false

  constructor(options: PoolOptions) {
    const { origin, tls } = options
    this.#options = options
    this.#serverName = withoutBrackets(tls?.serverName ?? origin.hostname)
    this.#connect = connector(options, this.#serverName)
  }

  send(request: OutgoingRequest, handler: ResponseHandler): UpstreamCall {
    // A connection that switches protocols leaves undici, so it is always a new one.
    const idle = request.upgrade === undefined ? this.#idle.pop() : undefined
    return this.#dispatch(idle ?? this.#open(), request, handler)
  }

  sendOnNewConnection(request: OutgoingRequest, handler: ResponseHandler): UpstreamCall {
    return this.#dispatch(this.#open(), request, handler)
  }

  destroy(): void {
    this.#isDestroyed = true
    for (const connection of [...this.#idle]) this.#close(connection)
    for (const call of this.#calls) call.abort(new Error('the upstream is not used any more'))
  }

  #dispatch(
    connection: UndiciConnection,
    request: OutgoingRequest,
    handler: ResponseHandler,
  ): UpstreamCall {
    const call = new UndiciCall(connection, request, handler, (isReusable) => {
      this.#calls.delete(call)
      if (isReusable && !this.#isDestroyed) this.#idle.push(connection)
      else this.#close(connection)
    })
    this.#calls.add(call)
    this.#timer ??= setInterval(this.#checkTimeouts, checkIntervalMs(this.#options)).unref()
    call.dispatch(this.#serverName)
    return call
  }

  readonly #checkTimeouts = () => {
    const nowMs = performance.now()
    for (const call of this.#calls) call.checkTimeout(nowMs, this.#options.timeouts.idle)
    if (this.#calls.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #open(): UndiciConnection {
    const { origin, timeouts } = this.#options
    const client = new Client(origin, {
      pipelining: 1,
      allowH2: false,
      maxHeaderSize: HEAD_BYTES_MAX,
      headersTimeout: timeouts.response,
      // `checkTimeout` measures instead: undici also counts the time of a slow client.
      bodyTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS_DEFAULT,
      keepAliveMaxTimeout: KEEP_ALIVE_MS_MAX,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
      connect: (options, done) => {
        connection.socket = this.#connect(options, done) as Socket
      },
    })
    const connection: UndiciConnection = { client, socket: undefined }
    client.on('disconnect', () => {
      // A connection in use reports its end to its request.
      if (this.#idle.includes(connection)) this.#close(connection)
    })
    return connection
  }

  #close(connection: UndiciConnection): void {
    const at = this.#idle.indexOf(connection)
    if (at !== -1) this.#idle.splice(at, 1)
    void connection.client.destroy()
    // undici does not close a socket that is still connecting.
    connection.socket?.destroy()
  }
}

function connector({ timeouts, tls }: PoolOptions, name: string) {
  const connect = buildConnector({
    timeout: timeouts.connect,
    allowH2: false,
    // Overrides NODE_TLS_REJECT_UNAUTHORIZED.
    rejectUnauthorized: true,
    checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    ...(tls?.ca && { ca: tls.ca }),
    ...(tls?.cert && { cert: tls.cert }),
    ...(tls?.key && { key: tls.key }),
  })
  // SNI has host names only, no addresses.
  const servername = isIP(name) === 0 ? name : ''
  return (options: buildConnector.Options, done: buildConnector.Callback): unknown =>
    connect({ ...options, servername }, done)
}

function checkIntervalMs({ timeouts }: PoolOptions): number {
  const ms = timeouts.idle / CHECKS_PER_TIMEOUT
  return Math.min(Math.max(ms, CHECK_INTERVAL_MS_MIN), CHECK_INTERVAL_MS_MAX)
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}
