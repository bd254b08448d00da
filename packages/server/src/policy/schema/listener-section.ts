/** The section `gateway`: how clients reach the gateway, and what they may send. */

import { headerDialects } from 'tidegate/http'
import { z } from 'zod'
import { byteSize, cidr, duration, fileName, integer, listen, ownPath } from './field-types.ts'
import { accessLogSection } from './logs/access-log-section.ts'
import { requestIdSection } from './logs/request-id-section.ts'

/** Proxy chains are short; a higher number would trust addresses that clients invent. */
const HOPS_MAX = 32

/** Implementations of HTTP/1, for clients and for upstreams. */
export const transports = ['own', 'node'] as const

const trustText = `a list such as [10.0.0.0/8], or the number of proxies, 0 to ${HOPS_MAX}`

const listenerTls = z.strictObject({
  cert: fileName.describe('The certificate chain, a PEM file.'),
  key: fileName.describe('Its private key, a PEM file.'),
  clientCa: fileName.optional().describe('The CA of client certificates, a PEM file.'),
  clientCertificate: z
    .enum(['none', 'request', 'require'])
    .default('none')
    .describe('`request` asks clients for a certificate, `require` refuses them without one.'),
})

const listenerTimeouts = z.strictObject({
  headers: duration.default(10_000).describe('For all header fields of a request to arrive.'),
  request: duration.default(30_000).describe('For a whole request to arrive, body included.'),
  keepAlive: duration.default(75_000).describe('An idle connection is closed after this time.'),
  send: duration
    .default(60_000)
    .describe('Disconnects a client that takes no bytes of a response for this time.'),
  unready: duration
    .default(500)
    .describe('When stopping: time to report not ready before the listener closes.'),
  drain: duration.default(30_000).describe('For open requests to end when stopping.'),
})

const overload = z.strictObject({
  delay: duration
    .default(100)
    .describe('How late the event loop may be. If it is later for 3 s, requests are shed.'),
  requestsMax: integer(1, 1_000_000)
    .optional()
    .describe('Requests in flight at most. Default: the sum of the upstreams, 1,000 to 10,000.'),
  criticalShare: z
    .number()
    .min(0)
    .max(0.9)
    .default(0.2)
    .describe('The share of `requestsMax` that is reserved for critical requests.'),
})

export const gatewaySection = z
  .strictObject({
    listen: listen.prefault({ port: 8080 }).describe('The address and port for clients.'),
    tls: listenerTls.optional().describe('Terminates TLS; without it, the listener is plain HTTP.'),
    http2: z.boolean().default(true).describe('Accepts HTTP/2; requires TLS.'),
    transport: z
      .enum(transports)
      .default('own')
      .describe(
        'The implementation of HTTP/1: `own`, the code of the gateway; `node`, `node:http` for ' +
          'clients and undici for upstreams. Needs a restart.',
      ),
    trustProxy: z
      .union([z.array(cidr).max(256), integer(0, HOPS_MAX)], { error: trustText })
      .default(0)
      .describe('Proxies whose X-Forwarded-For is trusted: their CIDRs, or their number.'),
    ipv6Prefix: integer(32, 128)
      .default(64)
      .describe('IPv6 clients are identified by this many bits of their address.'),
    headers: z
      .enum(headerDialects)
      .default('both')
      .describe('The rate limit header fields of responses.'),
    degradedHeaders: z
      .boolean()
      .default(true)
      .describe(
        'Adds `X-RateLimit-Status` and `-Warning` to responses while the store does not answer.',
      ),
    bodyBytesMax: byteSize
      .default(10 * 1_024 ** 2)
      .describe('The largest request body; a larger one is refused with 413.'),
    bodyRateMin: byteSize
      .default(256)
      .describe('The least bytes per second of a request body, measured over 1 to 5 seconds.'),
    headerBytesMax: byteSize
      .default(16 * 1_024)
      .refine((bytes) => bytes >= 1_024, { error: 'at least 1kb' })
      .describe('The largest request head; a larger one is refused with 431.'),
    timeouts: listenerTimeouts.prefault({}).describe('Timeouts of clients.'),
    connectionsMax: integer(1, 1_000_000).default(10_000).describe('Open connections at most.'),
    connectionsPerIpMax: integer(1, 1_000_000)
      .default(1_000)
      .describe('Open connections from one address at most, trusted proxies aside.'),
    via: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,64}$/, { error: '1 to 64 of the characters A-Z a-z 0-9 . _ -' })
      .default('auto')
      .describe('Its name in `Via`, which reveals loops; auto: a random one.'),
    preflightsPerSecondMax: integer(1, 1_000_000)
      .default(100)
      .describe('Forwarded CORS preflights of one client; 10 times as many in a burst.'),
    streamsMax: integer(1, 10_000)
      .default(100)
      .describe('Open requests on one HTTP/2 connection at most.'),
    overload: overload
      .prefault({})
      .describe('Sheds requests with 503, by priority, before the process is overloaded.'),
    requestId: requestIdSection.describe('The ids of requests.'),
    accessLog: accessLogSection.describe('Logs every request; `{}` turns it on. Needs a restart.'),
    healthPath: ownPath.default('/health').describe('Responds with 200 while the process runs.'),
    readyPath: ownPath.default('/ready').describe('Responds with 200 while it accepts requests.'),
  })
  .prefault({})

export type GatewaySection = z.output<typeof gatewaySection>
export type Transport = GatewaySection['transport']
