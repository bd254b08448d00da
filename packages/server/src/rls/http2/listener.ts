/**
 * The listener of the transport of our own: accepts sockets, cleartext with prior knowledge or TLS
 * with ALPN, makes a connection of each, and looks after them: those that say nothing, that read
 * nothing, that are gone without a word, or that have grown old.
 */

import { randomInt } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import type { ListenAddress, RpcTransport, TransportSettings } from '../rpc.ts'
import { isNamed, tlsOptions, watchTls } from '../tls-files.ts'
import { Connection } from './connection.ts'
import { errorCodes } from './frames.ts'

/** Until a client has to say that it speaks HTTP/2; a handshake takes a few round trips. */
const BEGIN_MS_MAX = 10_000

/** How long a client may read nothing while answers wait for it. */
const STUCK_MS_MAX = 30_000

/** How long it may take to answer whether it is there. */
const PONG_MS_MAX = 20_000

/** Until a client that was asked to go has to have heard it. */
const ASKED_MS_MAX = 1_000

const LOOK_MS = 250

/** Ages differ by a tenth, so that not all clients come back at once. */
const AGE_JITTER = 0.1

interface Member {
  readonly socket: Socket | TLSSocket
  readonly connection: Connection
  readonly bornMs: number
  readonly ageMs: number
  pingedMs: number | undefined
  askedMs: number | undefined
  isStopped: boolean
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
  server.maxConnections = settings.connectionsMax
  // A handshake that fails concerns nobody else.
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
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
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
      bornMs: Date.now(),
      ageMs: this.#settings.connectionAgeMs * spread,
      pingedMs: undefined,
      askedMs: undefined,
      isStopped: false,
    }
    this.#members.add(member)
    connection.onDrainPing = () => this.#stop(member)
    socket.on('data', (chunk) => connection.read(chunk))
    socket.on('drain', () => connection.onDrain())
    socket.on('error', () => socket.destroy())
    socket.on('end', () => socket.end())
    socket.on('close', () => {
      connection.onClosed()
      this.#members.delete(member)
      if (this.#members.size === 0) this.#onEmpty?.()
    })
    if (this.#graceMs !== undefined) this.#ask(member)
  }

  async drain(graceMs: number): Promise<void> {
    this.#graceMs = graceMs
    for (const member of this.#members) this.#ask(member)
    if (this.#members.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve
      })
    }
    clearInterval(this.#timer)
  }

  #look(): void {
    const nowMs = Date.now()
    for (const member of this.#members) this.#lookAt(member, nowMs)
  }

  #lookAt(member: Member, nowMs: number): void {
    const { connection, socket, bornMs } = member
    const stuckMs = connection.stuckSinceMs ?? connection.blockedSinceMs ?? nowMs
    if (!connection.isBegun && nowMs - bornMs > BEGIN_MS_MAX) return void socket.destroy()
    if (nowMs - stuckMs > STUCK_MS_MAX) {
      connection.close(errorCodes.enhanceYourCalm, 'nothing was read for too long')
      return void socket.destroy()
    }
    this.#lookForLife(member, nowMs)
    if (member.askedMs === undefined) {
      if (nowMs - bornMs > member.ageMs) this.#ask(member)
      return
    }
    const askedMs = nowMs - member.askedMs
    if (askedMs > ASKED_MS_MAX) this.#stop(member)
    const graceMs = this.#graceMs ?? this.#settings.connectionAgeGraceMs
    if (member.isStopped && connection.calls === 0) connection.close(errorCodes.none, '')
    if (askedMs > graceMs + ASKED_MS_MAX || socket.writableEnded) socket.destroy()
  }

  #lookForLife(member: Member, nowMs: number): void {
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

  #ask(member: Member): void {
    if (member.askedMs !== undefined) return
    member.askedMs = Date.now()
    member.connection.askToGo()
  }

  #stop(member: Member): void {
    if (member.isStopped) return
    member.isStopped = true
    member.connection.stopTaking()
    if (member.connection.calls === 0) member.connection.close(errorCodes.none, '')
  }
}

function addressOf(server: Server): RpcTransport['address'] {
  const address = server.address()
  if (address === null || typeof address === 'string') return { path: address ?? '' }
  return { host: address.address, port: address.port }
}
