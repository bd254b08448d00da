/** Accepts connections of clients, reads their requests, and writes the responses. */

import type {
  Http2ServerRequest,
  Http2ServerResponse,
  Http2Session as NodeSession,
  ServerHttp2Session,
} from 'node:http2'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import type { RefusedConnection } from '../../observability/traffic-events.ts'
import type { GatewaySection } from '../../policy/schema/listener-section.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import type { Handler } from '../pipeline.ts'
import { refusal } from '../refusal.ts'
import { addRequestId, requestIdOf } from '../request-id.ts'
import type { ReservedHeaders } from '../reserved-headers.ts'
import type { ClientRequest } from './client-request.ts'
import { type Connection, Connections, UNKNOWN } from './connections.ts'
import {
  type Certificates,
  type ClientServer,
  createClientServer,
  secureContext,
} from './create-server.ts'
import { HeldConnections } from './held-connections.ts'
import { HeldOffClients } from './held-off-clients.ts'
import {
  Http1Connection,
  type Http1Owner,
  type ServedConnection,
} from './http1/http1-connection.ts'
import { Http2Channel } from './http2/http2-channel.ts'
import { Http2Session } from './http2/http2-session.ts'
import { nodeHttp1 } from './node/node-http1.ts'
import { type ReadRequest, requestReader } from './read-request.ts'
import { RequestTurns } from './request-turns.ts'
import { SlowClients } from './slow-clients.ts'

export interface ListenerOptions {
  readonly section: GatewaySection
  readonly certificates: Certificates | undefined
  readonly handle: Handler
  /** True if a request is handled before others that wait. */
  isUrgent(request: GatewayRequest): boolean
  /** Reports how long requests wait to be handled. */
  onWait(waitedMs: number): void
  /** Header fields that the gateway reads or sets. */
  reserved(): ReservedHeaders
  /** Called for an error that no stage should have thrown. */
  onError(error: unknown, requestId?: string): void
  /** Called for a connection that is closed because its client, or all clients, have too many. */
  onRefused(reason: RefusedConnection, client: string): void
}

/** A client that has connected has sent its request, or is about to: the connection is for that. */
const FIRST_REQUEST_MS = 1_000

export class Listener {
  readonly #options: ListenerOptions
  readonly #server: ClientServer
  readonly #connections: Connections
  readonly #heldOff = new HeldOffClients()
  readonly #slowClients: SlowClients
  readonly #sessions = new Map<NodeSession, Http2Session>()
  readonly #http1Connections = new Set<ServedConnection>()
  readonly #serveHttp1: (socket: Socket, connection: Connection) => ServedConnection
  readonly #read: ReadRequest
  readonly #turns: RequestTurns<ClientRequest>
  #address: AddressInfo | undefined
  #isDraining = false
  #isClosing = false

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#connections = new Connections(options.section, this.#heldOff, options.onRefused)
    this.#slowClients = new SlowClients(options.section.timeouts)
    this.#read = requestReader(options.section, options.reserved, this.#slowClients)
    this.#turns = new RequestTurns<ClientRequest>({
      handle: (request) => this.#handle(request),
      isUrgent: options.isUrgent,
      onWait: options.onWait,
    })
    const owner = this.#ownerOfHttp1()
    const isNode = options.section.transport === 'node'
    const own = (socket: Socket, connection: Connection) =>
      new Http1Connection(socket, connection, owner)
    this.#serveHttp1 = isNode ? nodeHttp1(owner) : own
    this.#server = createClientServer(options.section, options.certificates)
    this.#serve()
  }

  /** The address on which it listens, or did until it was closed. */
  get address(): AddressInfo {
    if (this.#address === undefined) throw new Error('the gateway does not listen yet')
    return this.#address
  }

  /** Open connections of clients. */
  get connections(): number {
    return this.#connections.count
  }

  listen(): Promise<void> {
    const { host, port } = this.#options.section.listen
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ port, ...(host !== undefined && { host }) }, () => {
        const address = this.#server.address()
        if (typeof address === 'object') this.#address = address ?? undefined
        this.#server.off('error', reject)
        this.#server.on('error', this.#options.onError)
        this.#slowClients.watch(this.#checkTimeouts)
        resolve()
      })
    })
  }

  /** Applies to new connections. */
  useCertificates(certificates: Certificates, tls: NonNullable<GatewaySection['tls']>): void {
    const server = this.#server
    if ('setSecureContext' in server) server.setSecureContext(secureContext(certificates, tls))
  }

  /**
   * Closes each HTTP/1 connection after its response. HTTP/2 connections stay open until `close`:
   * after GOAWAY a client opens no stream, so it cannot be sent with a response.
   */
  startDraining(): void {
    this.#isDraining = true
  }

  /** Resolves when all requests have ended, at the latest after `drainMs`. */
  async close(drainMs: number): Promise<void> {
    this.#isDraining = true
    this.#isClosing = true
    // The method of a subclass would abort connections without draining them.
    const closed = new Promise<void>((resolve) => {
      NetServer.prototype.close.call(this.#server, () => resolve())
    })
    for (const session of this.#sessions.values()) session.drain()
    const closeIdle = (hasServed: boolean) => {
      for (const connection of this.#http1Connections) connection.closeIfIdle(hasServed)
    }
    closeIdle(true)
    const timers = [
      setTimeout(() => closeIdle(false), Math.min(FIRST_REQUEST_MS, drainMs)),
      setTimeout(() => this.#connections.destroyAll(), drainMs),
    ]
    await closed
    for (const timer of timers) clearTimeout(timer)
    this.#slowClients.forget(this.#checkTimeouts)
    this.#server.close()
  }

  #ownerOfHttp1(): Http1Owner {
    const { section, onError } = this.#options
    const isDraining = () => this.#isDraining
    return {
      reader: this.#read,
      headBytesMax: section.headerBytesMax,
      timeouts: section.timeouts,
      held: new HeldConnections(),
      get isDraining() {
        return isDraining()
      },
      take: (request) => this.#turns.take(request),
      onError,
    }
  }

  readonly #checkTimeouts = (nowMs: number) => {
    this.#connections.checkTimeouts(nowMs)
    for (const connection of this.#http1Connections) connection.checkTimeouts(nowMs)
    for (const session of this.#sessions.values()) session.checkTimeouts(nowMs)
  }

  #serve(): void {
    const server: NetServer = this.#server
    const { onRefused, section } = this.#options
    const { tls, http2 } = section
    server.on('connection', (socket: Socket) => this.#connections.add(socket))
    server.on('drop', (peer) => onRefused('connectionsMax', peer?.remoteAddress ?? UNKNOWN))
    server.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
      if (tls === undefined || !http2) this.#addHttp1(socket)
    })
    server.on('unknownProtocol', (socket: Socket) => this.#addHttp1(socket))
    // A session is created during this event, and gives no access to its socket.
    let secured: Socket | undefined
    server.prependListener('secureConnection', (socket: Socket) => {
      secured = socket
    })
    server.on('session', (session: ServerHttp2Session) => {
      if (secured !== undefined) this.#addSession(session, secured)
    })
    server.on('sessionError', () => undefined)
    const take = (incoming: Http2ServerRequest, outgoing: Http2ServerResponse) => {
      const { session } = incoming.stream
      const owner = session && this.#sessions.get(session)
      owner?.turns.add(() => this.#takeHttp2(incoming, outgoing, owner))
    }
    for (const event of ['request', 'checkContinue', 'checkExpectation', 'connect']) {
      server.on(event, take)
    }
  }

  #addHttp1(socket: Socket): void {
    // It was refused because its client has too many.
    if (socket.destroyed) return
    const facts = this.#connections.of(socket)
    if (facts === undefined) {
      socket.destroy()
      return
    }
    const connection = this.#serveHttp1(socket, facts)
    this.#http1Connections.add(connection)
    socket.once('close', () => this.#http1Connections.delete(connection))
  }

  #addSession(session: ServerHttp2Session, socket: Socket): void {
    const { timeouts, streamsMax } = this.#options.section
    const client = this.#connections.of(socket)?.client
    const onAttack = () => client !== undefined && this.#heldOff.report(client)
    const one = new Http2Session(session, socket, { timeouts, streamsMax, onAttack })
    this.#sessions.set(session, one)
    session.once('close', () => this.#sessions.delete(session))
    if (this.#isClosing) one.drain()
  }

  #takeHttp2(
    incoming: Http2ServerRequest,
    outgoing: Http2ServerResponse,
    session: Http2Session,
  ): void {
    // The client may have reset it while it waited.
    if (incoming.stream.destroyed) return
    const channel = new Http2Channel(incoming, outgoing, {
      onFrame: (bytes) => session.countFrame(bytes),
      slowClients: this.#slowClients,
      sendMs: this.#options.section.timeouts.send,
    })
    try {
      const connection = this.#connections.of(incoming.stream.session?.socket ?? incoming.socket)
      if (connection === undefined) {
        channel.abort()
        return
      }
      const { method, url, rawHeaders: fields, authority, stream } = incoming
      const hasBody = !stream.endAfterHeaders
      // A CONNECT has no path.
      const target = url ?? ''
      const wire = { method, target, fields, version: '2', authority, hasBody } as const
      const request = this.#read.request(wire, this.#read.head(wire), channel, connection)
      channel.follow(request, connection)
      this.#turns.take(request)
    } catch (error) {
      this.#options.onError(error)
      channel.abort()
    }
  }

  #handle(request: ClientRequest): void {
    // The client may have disconnected while the request waited.
    if (request.hasEnded) return
    // An error ends this request, never the process.
    const finish = (response: GatewayResponse) => {
      try {
        request.channel.send(request, response)
      } catch (error) {
        this.#options.onError(error)
        request.channel.abort()
      }
    }
    const failed = (error: unknown) => {
      this.#options.onError(error, requestIdOf(request))
      const response = refusal(500, 'The gateway failed to handle this request.')
      const id = requestIdOf(request)
      if (id !== undefined) addRequestId(response, this.#options.section.requestId.header, id)
      finish(response)
    }
    let response: ReturnType<Handler>
    try {
      response = this.#options.handle(request)
    } catch (error) {
      failed(error)
      return
    }
    if (response instanceof Promise) response.then(finish, failed)
    else finish(response)
  }
}
