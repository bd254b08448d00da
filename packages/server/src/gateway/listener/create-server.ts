/** The server that takes connections, with a bound on all that it keeps. */

import { createSecureServer, type Http2SecureServer } from 'node:http2'
import { createServer, type Server } from 'node:net'
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type Server as TlsServer,
} from 'node:tls'
import type { GatewaySection } from '../../policy/gateway-section.ts'
import { HEADERS_MAX } from '../request-head.ts'

export type ClientServer = Server | TlsServer | Http2SecureServer

/** What is read from the files that `tls` names. */
export interface Certificates {
  readonly cert: Buffer
  readonly key: Buffer
  readonly ca: Buffer | undefined
}

/** For all streams of one HTTP/2 connection together; in megabytes, as Node counts it. */
const SESSION_MEMORY_MB_MAX = 10

/**
 * Streams that a client may reset at once, per stream that it may have open: a browser that leaves
 * a page resets all of them, and may do so twice. Each costs about 100 µs.
 */
const RESETS_PER_STREAM = 2

/** Streams that a client may reset per second after that: the default of Node. */
const RESETS_PER_SECOND = 33

/**
 * Where it speaks HTTP/2, connections of clients that do not are told as `unknownProtocol`; with
 * TLS alone as `secureConnection`, without as `connection`.
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
  // Who ends its side may still be owed an answer.
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
    streamResetRate: RESETS_PER_SECOND,
    maxHeaderListPairs: HEADERS_MAX * 2,
    settings: { maxConcurrentStreams: streamsMax, maxHeaderListSize: section.headerBytesMax },
  })
}
