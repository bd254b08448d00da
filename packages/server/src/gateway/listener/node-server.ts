/** The server of node:http, node:https or node:http2, with a bound on all that it keeps. */

import { createServer, type IncomingMessage, type Server, type ServerOptions } from 'node:http'
import { createSecureServer, type Http2SecureServer } from 'node:http2'
import { createServer as createTlsServer } from 'node:https'
import type { SecureContextOptions } from 'node:tls'
import type { GatewaySection } from '../../policy/gateway-section.ts'
import { HEADERS_MAX } from '../request-head.ts'

export type NodeServer = Server | Http2SecureServer

/** What is read from the files that `tls` names. */
export interface Certificates {
  readonly cert: Buffer
  readonly key: Buffer
  readonly ca: Buffer | undefined
}

/** Times are checked this often, so that they hold to about a second. */
const CHECK_INTERVAL_MS = 1_000

/** For all streams of one HTTP/2 connection together; in megabytes, as Node counts it. */
const SESSION_MEMORY_MB_MAX = 10

export function createNodeServer(
  section: GatewaySection,
  certificates: Certificates | undefined,
): NodeServer {
  const server = createByProtocol(section, certificates)
  server.maxConnections = section.connectionsMax
  // One more than is allowed, so that the one too many is seen and not dropped in silence.
  if ('maxHeadersCount' in server) server.maxHeadersCount = HEADERS_MAX + 1
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
): NodeServer {
  const options = httpOptions(section)
  const { tls, http2, streamsMax, timeouts } = section
  if (tls === undefined || certificates === undefined) return createServer(options)
  const secure = { ...secureContext(certificates, tls), handshakeTimeout: timeouts.headers }
  if (!http2) return createTlsServer({ ...options, ...secure })
  return createSecureServer({
    ...options,
    ...secure,
    allowHTTP1: true,
    maxSessionMemory: SESSION_MEMORY_MB_MAX,
    maxHeaderListPairs: HEADERS_MAX * 2,
    settings: { maxConcurrentStreams: streamsMax, maxHeaderListSize: section.headerBytesMax },
  })
}

function httpOptions({ headerBytesMax, timeouts }: GatewaySection) {
  return {
    maxHeaderSize: headerBytesMax,
    headersTimeout: Math.min(timeouts.headers, timeouts.request),
    requestTimeout: timeouts.request,
    keepAliveTimeout: timeouts.keepAlive,
    connectionsCheckingInterval: CHECK_INTERVAL_MS,
    insecureHTTPParser: false,
    // Ours says why, and is logged.
    requireHostHeader: false,
    // Spares requests without a body the life of a stream.
    optimizeEmptyRequests: true,
    // Everything else that asks to be upgraded, such as h2c, stays an ordinary request.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) =>
      headers.upgrade?.toLowerCase() === 'websocket',
  } satisfies ServerOptions & Record<string, unknown>
}
