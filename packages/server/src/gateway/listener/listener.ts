/** Where clients connect. Reads their requests, hands them on, and writes what comes back. */

import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Session } from 'node:http2'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { GatewaySection } from '../../policy/gateway-section.ts'
import type { GatewayResponse, Handler } from '../message.ts'
import type { OwnedNames } from '../owned-names.ts'
import { refusal } from '../refusal.ts'
import { answerClientError, endWith } from './client-error.ts'
import { Connections } from './connections.ts'
import { type Incoming, isHttp1, type NodeRequest, type Outgoing } from './node-request.ts'
import {
  type Certificates,
  createNodeServer,
  type NodeServer,
  secureContext,
} from './node-server.ts'
import { type ReadRequest, requestReader } from './read-request.ts'
import { respond } from './respond.ts'
import { SlowClients } from './slow-clients.ts'
import { cutOff } from './stalled.ts'
import { openTunnel } from './tunnel.ts'

export interface ListenerOptions {
  readonly section: GatewaySection
  readonly certificates: Certificates | undefined
  readonly handle: Handler
  /** Names of header fields that the gateway reads or sets. */
  owned(): OwnedNames
  /** Told of an error that no stage should have thrown. */
  onError(error: unknown): void
}

/** The highest id that a stream can have: https://www.rfc-editor.org/rfc/rfc9113#section-6.8 */
const STREAM_ID_MAX = 2 ** 31 - 1

export class Listener {
  readonly #options: ListenerOptions
  readonly #server: NodeServer
  readonly #connections: Connections
  readonly #slowClients = new SlowClients()
  readonly #sessions = new Set<ServerHttp2Session>()
  readonly #read: ReadRequest
  #address: AddressInfo | undefined
  #isDraining = false

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#connections = new Connections(options.section)
    this.#read = requestReader(options.section, options.owned, this.#slowClients)
    this.#server = createNodeServer(options.section, options.certificates)
    this.#serve()
  }

  /** Where it listens, or did until it was closed. */
  get address(): AddressInfo {
    if (this.#address === undefined) throw new Error('the gateway does not listen yet')
    return this.#address
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
        this.#slowClients.watch(this.#lookForIdle)
        resolve()
      })
    })
  }

  /** For connections that are made from now on. */
  useCertificates(certificates: Certificates, tls: NonNullable<GatewaySection['tls']>): void {
    const server = this.#server
    if ('setSecureContext' in server) server.setSecureContext(secureContext(certificates, tls))
  }

  /** Requests are served on, and every answer asks its client to connect anew, elsewhere. */
  startDraining(): void {
    this.#isDraining = true
    for (const session of this.#sessions) sendAway(session)
  }

  /** Ends when all requests have ended, at the latest when the time is over. */
  async close(drainMs: number): Promise<void> {
    this.#isDraining = true
    // Not that of the subclass, which would cut connections off without having asked.
    const closed = new Promise<void>((resolve) => {
      NetServer.prototype.close.call(this.#server, () => resolve())
    })
    for (const session of this.#sessions) session.close()
    if ('closeIdleConnections' in this.#server) this.#server.closeIdleConnections()
    const timer = setTimeout(() => this.#connections.destroyAll(), drainMs)
    await closed
    clearTimeout(timer)
    this.#server.close()
    this.#slowClients.forget(this.#lookForIdle)
  }

  /** A head that begins at the last moment still has its time. */
  readonly #lookForIdle = () => {
    const { keepAlive, headers } = this.#options.section.timeouts
    this.#connections.destroyIdle(keepAlive + headers)
  }

  #serve(): void {
    const server: NetServer = this.#server
    server.on('connection', (socket: Socket) => this.#connections.add(socket))
    server.on('session', (session: ServerHttp2Session) => this.#addSession(session))
    server.on('sessionError', () => undefined)
    server.on('request', (incoming: Incoming, outgoing: Outgoing) =>
      this.#take(incoming, outgoing, false),
    )
    server.on('checkContinue', (incoming: Incoming, outgoing: Outgoing) =>
      this.#take(incoming, outgoing, true),
    )
    server.on('checkExpectation', (incoming: Incoming, outgoing: Outgoing) => {
      const request = this.#request(incoming, outgoing, false, undefined)
      this.#send(request, refusal(417, 'The only expectation that is met here is 100-continue.'))
    })
    server.on('upgrade', (incoming: IncomingMessage, socket: Socket, early: Buffer) =>
      this.#takeUpgrade(incoming, socket, early),
    )
    server.on('connect', (incoming: Incoming, other: Duplex | Http2ServerResponse) => {
      if (!isHttp1(incoming)) return this.#take(incoming, other as Http2ServerResponse, false)
      endWith(other as Duplex, refusal(405, 'This method is not served here.'))
    })
    server.on('clientError', (error: Error, socket: Socket) => {
      const connection = this.#connections.of(socket)
      const isAnswering = [...connection.live].some(({ isHeadSent }) => isHeadSent)
      answerClientError(error, socket, !isAnswering && !connection.isDiscarding)
    })
  }

  #addSession(session: ServerHttp2Session): void {
    this.#sessions.add(session)
    session.on('error', () => session.destroy())
    session.once('close', () => this.#sessions.delete(session))
    session.setTimeout(this.#options.section.timeouts.keepAlive, () => session.close())
    if (this.#isDraining) sendAway(session)
  }

  #request(
    incoming: Incoming,
    outgoing: Outgoing,
    isWaiting: boolean,
    upgrade: string | undefined,
  ): NodeRequest {
    const connection = this.#connections.of(socketOf(incoming))
    connection.isDiscarding = false
    if (outgoing instanceof ServerResponse) connection.latest = outgoing
    return this.#read(incoming, outgoing, connection, { isWaiting, upgrade })
  }

  #take(incoming: Incoming, outgoing: Outgoing, isWaiting: boolean): void {
    try {
      const request = this.#request(incoming, outgoing, isWaiting, undefined)
      this.#handle(request, (response) => this.#send(request, response))
    } catch (error) {
      this.#options.onError(error)
      cutOff(outgoing)
    }
  }

  #takeUpgrade(incoming: IncomingMessage, socket: Socket, early: Buffer): void {
    const outgoing = new ServerResponse(incoming)
    outgoing.shouldKeepAlive = false
    outgoing.assignSocket(socket)
    socket.on('error', () => socket.destroy())
    const request = this.#request(incoming, outgoing, false, 'websocket')
    this.#handle(request, (response) => {
      if (response.tunnel === undefined) {
        outgoing.once('finish', () => socket.destroySoon())
        this.#send(request, response)
        return
      }
      outgoing.detachSocket(socket)
      if (socket.destroyed) response.tunnel.destroy()
      else openTunnel(socket, response.tunnel, response, early)
    })
  }

  #handle(request: NodeRequest, done: (response: GatewayResponse) => void): void {
    // Whatever goes wrong here is the end of this request, and never of the process.
    const finish = (answer: GatewayResponse) => {
      try {
        done(answer)
      } catch (error) {
        this.#options.onError(error)
        cutOff(request.outgoing)
      }
    }
    const failed = (error: unknown) => {
      this.#options.onError(error)
      finish(refusal(500, 'The gateway failed to handle this request.'))
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

  #send(request: NodeRequest, response: GatewayResponse): void {
    respond(request, response, {
      isClosing: this.#isDraining,
      keepAliveMs: this.#options.section.timeouts.keepAlive,
      slowClients: this.#slowClients,
    })
  }
}

/** One that has just ended may not have told so yet, and would throw. */
function sendAway(session: ServerHttp2Session): void {
  if (!session.destroyed && !session.closed) session.goaway(0, STREAM_ID_MAX)
}

function socketOf(incoming: IncomingMessage | Http2ServerRequest): Socket {
  return isHttp1(incoming) ? incoming.socket : (incoming.stream.session?.socket ?? incoming.socket)
}
