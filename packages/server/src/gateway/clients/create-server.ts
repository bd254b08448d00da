/** Creates the server that accepts connections, with a bound on everything that it keeps. */

import { createSecureServer, type Http2SecureServer } from 'node:http2'
import { createServer, type Server } from 'node:net'
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type Server as TlsServer,
} from 'node:tls'
import type { GatewaySection } from '../../policy/schema/listener-section.ts'
import { HEADERS_MAX } from '../request-head.ts'

export type ClientServer = Server | TlsServer | Http2SecureServer

/** The content of the files that `tls` names. */
export interface Certificates {
  readonly cert: Buffer
  readonly key: Buffer
  readonly ca: Buffer | undefined
}

/** For all streams of an HTTP/2 connection together; Node counts in megabytes. */
const SESSION_MEMORY_MB_MAX = 10

/**
 * Streams that a client may reset, per stream that it may have open, at once and per second.
 * nghttp2 ignores further streams. http2-session.ts has closed the connection by then, but its
 * close takes effect only after the current read, which can hold 2,000 streams.
 */
const RESETS_PER_STREAM = 2

/**
 * HTTP/1 connections are reported as `connection`, with TLS as `secureConnection`, and if the
 * server also speaks HTTP/2 as `unknownProtocol`.
 */
export function createClientServer(
  section: GatewaySection,
  certificates: Certificates | undefined,
): ClientServer {
  const server = createByProtocol(section, certificates)
  server.maxConnections = section.connectionsMax
  return server
}

export function secureContext(
  certificates: Certificates,
  { clientCertificate }: NonNullable<GatewaySection['tls']>,
) {
  const { cert, key, ca } = certificates
  const context: SecureContextOptions = { cert, key, minVersion: 'TLSv1.2' }
  if (ca !== undefined) context.ca = ca
  return {
    ...context,
    requestCert: clientCertificate !== 'none',
    rejectUnauthorized: clientCertificate === 'require',
  }
}

function createByProtocol(
  section: GatewaySection,
  certificates: Certificates | undefined,
): ClientServer {
  // A client that closes its side may still wait for a response.
  const socket = { noDelay: true, allowHalfOpen: true }
  const { tls, http2, streamsMax, timeouts } = section
  if (tls === undefined || certificates === undefined) return createServer(socket)
  const secure = {
    ...socket,
    ...secureContext(certificates, tls),
    handshakeTimeout: timeouts.headers,
  }
  if (!http2) return createTlsServer({ ...secure, ALPNProtocols: ['http/1.1'] })
  return createSecureServer({
    ...secure,
    ALPNCallback: ({ protocols }) => ['h2', 'http/1.1'].find((one) => protocols.includes(one)),
    maxSessionMemory: SESSION_MEMORY_MB_MAX,
    streamResetBurst: RESETS_PER_STREAM * streamsMax,
    streamResetRate: RESETS_PER_STREAM * streamsMax,
    maxHeaderListPairs: HEADERS_MAX * 2,
    settings: { maxConcurrentStreams: streamsMax, maxHeaderListSize: section.headerBytesMax },
  })
}
