/**
 * The listener of Tidegate's HTTP/2 transport: accepts cleartext with prior knowledge, or TLS with
 * ALPN. It closes connections that send nothing, read nothing or do not respond to PING, and drains
 * those that reach their maximum age.
 */

import { randomInt } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { shareConnections } from '../../../http-api/connection-shares.ts'
import type { ListenAddress, RpcTransport, TransportSettings } from '../../rpc.ts'
import { isNamed, tlsOptions, watchTls } from '../tls-options.ts'
import { errorCodes } from './frames.ts'
import { Connection } from './http2-connection.ts'

/** How long a client may read nothing while responses wait: longer than any call needs. */
const STALLED_MS_MAX = 30_000

/** The timeout for the acknowledgement of a PING, which is also the default of gRPC. */
const PONG_MS_MAX = 20_000

/** How long the final GOAWAY waits for the acknowledgement of the drain PING. */
const DRAIN_PING_MS_MAX = 1_000

/** The interval of the checks: short against all timeouts here. */
const CHECK_MS = 250

/** Ages vary by 10 %, so that clients do not all reconnect at once. */
const AGE_JITTER = 0.1

interface Member {
  readonly socket: Socket | TLSSocket
  readonly connection: Connection
  readonly acceptedMs: number
  readonly ageMsMax: number
  pingedMs: number | undefined
  /** When the first GOAWAY was sent. */
  drainingSinceMs: number | undefined
  /** True after the final GOAWAY. */
  refusesStreams: boolean
}

export async function listenHttp2(
  address: ListenAddress,
  settings: TransportSettings,
): Promise<RpcTransport> {
  const { tls } = settings
  const listener = new Listener(settings)
  const accept = (socket: Socket | TLSSocket) => listener.accept(socket)
  const options = { noDelay: true, keepAlive: true }
  const server: Server =
    tls === undefined
      ? createServer(options, accept)
      : createTlsServer({ ...options, ...tlsOptions(tls) }, (socket) => {
          if (socket.alpnProtocol === 'h2' && isNamed(socket, tls.clientNames)) accept(socket)
          else socket.destroy()
        })
  shareConnections(server, settings.connectionsMax)
  // A failed handshake affects only its own connection.
  server.on('tlsClientError', () => undefined)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(
      'path' in address ? { path: address.path } : { ...address, backlog: 1_024 },
      resolve,
    )
  })
  server.removeAllListeners('error')
  server.on('error', () => undefined)
  const unwatch = tls === undefined ? () => undefined : watchTls(server, tls)
  return {
    address: addressOf(server),
    get connections() {
      return listener.size
    },
    drain: async (graceMs) => {
      unwatch()
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      await listener.drain(graceMs)
      await closed
    },
  }
}

class Listener {
  readonly #settings: TransportSettings
  readonly #members = new Set<Member>()
  readonly #timer: NodeJS.Timeout
  #onEmpty: (() => void) | undefined
  #graceMs: number | undefined

  constructor(settings: TransportSettings) {
    this.#settings = settings
    this.#timer = setInterval(() => this.#checkAll(), CHECK_MS)
    this.#timer.unref()
  }

  get size(): number {
    return this.#members.size
  }

  accept(socket: Socket | TLSSocket): void {
    const connection = new Connection(socket, this.#settings)
    const spread = 1 + (AGE_JITTER * (randomInt(2_001) - 1_000)) / 1_000
    const member: Member = {
      socket,
      connection,
      acceptedMs: Date.now(),
      ageMsMax: this.#settings.connectionAgeMs * spread,
      pingedMs: undefined,
      drainingSinceMs: undefined,
      refusesStreams: false,
    }
    this.#members.add(member)
    connection.onDrainPing = () => this.#refuseStreams(member)
    socket.on('data', (chunk) => connection.read(chunk))
    socket.on('drain', () => connection.onDrain())
    socket.on('error', () => socket.destroy())
    socket.on('end', () => socket.end())
    socket.on('close', () => {
      connection.onClosed()
      this.#members.delete(member)
      if (this.#members.size === 0) this.#onEmpty?.()
    })
    if (this.#graceMs !== undefined) this.#announceDrain(member)
  }

  async drain(graceMs: number): Promise<void> {
    this.#graceMs = graceMs
    for (const member of this.#members) this.#announceDrain(member)
    if (this.#members.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve
      })
    }
    clearInterval(this.#timer)
  }

  #checkAll(): void {
    const nowMs = Date.now()
    for (const member of this.#members) this.#check(member, nowMs)
  }

  #check(member: Member, nowMs: number): void {
    const { connection, socket, acceptedMs } = member
    const { frameMs } = this.#settings
    const stalledSinceMs = connection.stalledSinceMs ?? connection.blockedSinceMs ?? nowMs
    if (!connection.hasPreface && nowMs - acceptedMs > frameMs) return void socket.destroy()
    if (nowMs - (connection.incompleteSinceMs ?? nowMs) > frameMs) return void socket.destroy()
    if (nowMs - stalledSinceMs > STALLED_MS_MAX) {
      connection.close(errorCodes.enhanceYourCalm, 'responses were not read in time')
      return void socket.destroy()
    }
    this.#checkAlive(member, nowMs)
    if (member.drainingSinceMs === undefined) {
      if (nowMs - acceptedMs > member.ageMsMax) this.#announceDrain(member)
      return
    }
    const drainingMs = nowMs - member.drainingSinceMs
    if (drainingMs > DRAIN_PING_MS_MAX) this.#refuseStreams(member)
    const graceMs = this.#graceMs ?? this.#settings.connectionAgeGraceMs
    if (member.refusesStreams && connection.calls === 0) connection.close(errorCodes.none, '')
    if (drainingMs > graceMs + DRAIN_PING_MS_MAX || socket.writableEnded) socket.destroy()
  }

  #checkAlive(member: Member, nowMs: number): void {
    const { connection, socket } = member
    const silentMs = nowMs - connection.lastReadMs
    if (silentMs < this.#settings.keepAliveMs) {
      member.pingedMs = undefined
      return
    }
    if (member.pingedMs === undefined) {
      member.pingedMs = nowMs
      connection.ping()
    } else if (nowMs - member.pingedMs > PONG_MS_MAX) socket.destroy()
  }

  #announceDrain(member: Member): void {
    if (member.drainingSinceMs !== undefined) return
    member.drainingSinceMs = Date.now()
    member.connection.announceDrain()
  }

  #refuseStreams(member: Member): void {
    if (member.refusesStreams) return
    member.refusesStreams = true
    member.connection.refuseStreams()
    if (member.connection.calls === 0) member.connection.close(errorCodes.none, '')
  }
}

function addressOf(server: Server): RpcTransport['address'] {
  const address = server.address()
  if (address === null || typeof address === 'string') return { path: address ?? '' }
  return { host: address.address, port: address.port }
}
