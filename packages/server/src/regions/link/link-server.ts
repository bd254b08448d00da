/**
 * Answers the messages of other regions. It accepts TLS only. The name of the region is in the
 * client certificate; with a token, the message states it. A message of an unknown region, with a
 * wrong token or from another list of regions is refused as a whole.
 */

import { once } from 'node:events'
import { createSecureServer, type Http2SecureServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { alternativeNames } from '../../config/alternative-names.ts'
import { bearerCheck } from '../../http-api/bearer-token.ts'
import type { Topology } from '../topology.ts'
import { MessageError } from './bytes.ts'
import {
  answerTypes,
  decodeMessage,
  encodeFrames,
  type Frame,
  frameTypes,
  MESSAGE_BYTES_MAX,
} from './frames.ts'
import { FORGOTTEN_STATUS } from './link-post.ts'

/** Answers a frame. A rejection is answered as a failure, without its text. */
export type FrameHandler = (from: string, body: Uint8Array) => Promise<Uint8Array>

export interface LinkServerOptions {
  readonly topology: Topology
  readonly host: string
  readonly port: number
  readonly tls: { readonly cert: Buffer; readonly key: Buffer; readonly ca: Buffer }
  readonly token: string | undefined
  readonly handlers: ReadonlyMap<number, FrameHandler>
  /** Whether operators have given a region up, so that its messages are refused. */
  isForgotten(region: string): boolean
  /** Called for each message that is answered. */
  onMessage(from: string): void
  onRefused(reason: RefusedReason): void
}

export const refusedReasons = ['identity', 'fingerprint', 'format'] as const

export type RefusedReason = (typeof refusedReasons)[number]

export interface LinkServer {
  readonly port: number
  close(): Promise<void>
}

/** Every process of every other region has a connection; more than this is a mistake. */
const CONNECTIONS_MAX = 1_024

/** Messages of one connection that are answered side by side. */
const STREAMS_MAX = 128

/** Clients ping every second. A connection that is silent for longer lost its client in a cut. */
const IDLE_MS_MAX = 30_000

/** Clients close attempts of which another one was faster, also during the handshake. */
const GIVEN_UP = 'ECONNRESET'

/** A sender that takes longer has given up. */
const RECEIVE_MS_MAX = 5_000

export async function startLinkServer(options: LinkServerOptions): Promise<LinkServer> {
  const sockets = new Set<Socket>()
  const server = createServer(options)
  const isAuthorized = options.token === undefined ? () => true : bearerCheck(options.token)
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('session', (session) => {
    session.on('error', () => session.destroy())
    session.setTimeout(IDLE_MS_MAX, () => session.destroy())
  })
  server.on('sessionError', () => undefined)
  server.on('tlsClientError', (error: NodeJS.ErrnoException) => {
    if (error.code !== GIVEN_UP) options.onRefused('identity')
  })
  server.on('stream', (stream, headers) => {
    stream.on('error', () => stream.close())
    if (!isAuthorized(headers.authorization)) {
      options.onRefused('identity')
      respond(stream, 401)
      return
    }
    void receive(stream, options)
  })
  server.listen(options.port, options.host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = once(server, 'close')
      server.close()
      // Also those whose handshake has begun, for which the server would wait: two regions that
      // stop at the same time would wait for each other.
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

function createServer({ tls, token }: LinkServerOptions): Http2SecureServer {
  const server = createSecureServer({
    ...tls,
    minVersion: 'TLSv1.2',
    requestCert: token === undefined,
    rejectUnauthorized: token === undefined,
    settings: { maxConcurrentStreams: STREAMS_MAX, initialWindowSize: MESSAGE_BYTES_MAX },
  })
  server.maxConnections = CONNECTIONS_MAX
  return server
}

async function receive(stream: ServerHttp2Stream, options: LinkServerOptions): Promise<void> {
  stream.setTimeout(RECEIVE_MS_MAX, () => stream.close())
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > MESSAGE_BYTES_MAX) return respond(stream, 413)
      chunks.push(chunk)
    }
    await answer(stream, Buffer.concat(chunks), options)
  } catch (error) {
    if (!(error instanceof MessageError)) return stream.close()
    options.onRefused('format')
    respond(stream, 400, error.message)
  }
}

async function answer(
  stream: ServerHttp2Stream,
  bytes: Buffer,
  { topology, token, handlers, isForgotten, onMessage, onRefused }: LinkServerOptions,
): Promise<void> {
  const { header, frames } = decodeMessage(bytes)
  const isPeer = topology.peers.includes(header.from)
  if (!isPeer || (token === undefined && !isCertified(stream, header.from))) {
    onRefused('identity')
    return respond(stream, 403)
  }
  if (isForgotten(header.from)) {
    onRefused('identity')
    return respond(stream, FORGOTTEN_STATUS)
  }
  if (!header.fingerprint.equals(topology.fingerprint)) {
    onRefused('fingerprint')
    return respond(stream, 409)
  }
  onMessage(header.from)
  const answers = await Promise.all(
    frames.map((frame) => answerFrame(header.from, frame, handlers)),
  )
  respond(stream, 200, encodeFrames(answers))
}

async function answerFrame(
  from: string,
  { type, body }: Frame,
  handlers: ReadonlyMap<number, FrameHandler>,
): Promise<Frame> {
  if (type === frameTypes.ping) return { type: answerTypes.ok, body: pong() }
  const handler = handlers.get(type)
  if (handler === undefined) return { type: answerTypes.unknown, body: nothing }
  try {
    return { type: answerTypes.ok, body: await handler(from, body) }
  } catch (error) {
    const isRefused = error instanceof MessageError
    return { type: isRefused ? answerTypes.refused : answerTypes.failed, body: nothing }
  }
}

const nothing = new Uint8Array(0)

/** The wall clock, for the offset between regions. */
function pong(): Buffer {
  const body = Buffer.allocUnsafe(8)
  body.writeDoubleBE(Date.now(), 0)
  return body
}

/** The names are those of a certificate that the CA of the link has signed. */
function isCertified(stream: ServerHttp2Stream, region: string): boolean {
  const socket = stream.session?.socket as TLSSocket | undefined
  const { subjectaltname = '' } = socket?.getPeerCertificate() ?? {}
  return alternativeNames(subjectaltname).includes(region)
}

function respond(stream: ServerHttp2Stream, status: number, body?: Uint8Array | string): void {
  if (stream.destroyed || stream.closed) return
  stream.respond({ ':status': status })
  stream.end(body)
}
