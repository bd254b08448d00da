/**
 * The sections of a policy file that the gateway itself needs: where it listens, whom it believes,
 * where it forwards to, and what it logs. What is limited stands in the other sections.
 */

import { headerDialects } from 'tidegate/http'
import { z } from 'zod'
import {
  byteSize,
  cidr,
  duration,
  fileName,
  headerName,
  headerValue,
  listen,
  method,
  name,
  secret,
  whole,
} from './fields.ts'
import { pathPattern } from './path-pattern.ts'
import { priorities } from './priority.ts'

/** A proxy chain is short; more hops would be an attempt to trust everybody. */
const HOPS_MAX = 32

const ownPath = z.string().regex(/^\/[A-Za-z0-9._~/-]{0,127}$/, { error: 'a path such as /health' })

const listenerTls = z.strictObject({
  cert: fileName.describe('The certificate chain, a PEM file.'),
  key: fileName.describe('Its private key, a PEM file.'),
  clientCa: fileName.optional().describe('Who signs client certificates, a PEM file.'),
  clientCertificate: z
    .enum(['none', 'request', 'require'])
    .default('none')
    .describe('Whether clients are asked for a certificate, and refused without one.'),
})

const listenerTimeouts = z.strictObject({
  headers: duration.default(10_000).describe('For all header fields of a request to arrive.'),
  request: duration.default(30_000).describe('For a whole request to arrive, body included.'),
  keepAlive: duration.default(75_000).describe('How long an idle connection is kept.'),
  send: duration
    .default(60_000)
    .describe('Disconnects a client that takes no bytes of a response for this time.'),
  unready: duration
    .default(500)
    .describe('When stopping: how long it says that it is not ready before it stops accepting.'),
  drain: duration.default(30_000).describe('For requests under way to end when stopping.'),
})

const overload = z.strictObject({
  delay: duration
    .default(100)
    .describe('How late the event loop may be, turn after turn, before requests are shed.'),
  requestsMax: whole(1, 1_000_000)
    .optional()
    .describe('Requests in flight at most. Default: as many as upstreams take, 1,000 to 10,000.'),
  criticalShare: z
    .number()
    .min(0)
    .max(0.9)
    .default(0.2)
    .describe('The share of them that is reserved for critical requests.'),
})

export const gatewaySection = z
  .strictObject({
    listen: listen.prefault({ port: 8080 }).describe('Where clients connect.'),
    tls: listenerTls.optional().describe('Terminates TLS; without it, the listener is plain HTTP.'),
    http2: z.boolean().default(true).describe('Whether clients may use HTTP/2; needs TLS.'),
    trustProxy: z
      .union([z.array(cidr).max(256), whole(0, HOPS_MAX)])
      .default(0)
      .describe('Proxies whose X-Forwarded-For is believed: their CIDRs, or how many they are.'),
    ipv6Prefix: whole(32, 128)
      .default(64)
      .describe('IPv6 clients are told apart by this many bits of their address.'),
    headers: z
      .enum(headerDialects)
      .default('both')
      .describe('Which rate limit header fields responses carry.'),
    bodyBytesMax: byteSize
      .default(10 * 1_024 ** 2)
      .describe('The largest request body; more is refused with 413.'),
    bodyRateMin: byteSize
      .default(256)
      .describe(
        'Bytes per second that a request body must arrive with, measured over 1 to 5 seconds.',
      ),
    headerBytesMax: byteSize
      .default(16 * 1_024)
      .refine((bytes) => bytes >= 1_024, { error: 'at least 1kb' })
      .describe('The largest request head; more is refused with 431.'),
    timeouts: listenerTimeouts.prefault({}).describe('How long clients may take.'),
    connectionsMax: whole(1, 1_000_000).default(10_000).describe('Open connections at most.'),
    connectionsPerIpMax: whole(1, 1_000_000)
      .default(1_000)
      .describe('Open connections from one address at most; proxies that are trusted excepted.'),
    streamsMax: whole(1, 10_000)
      .default(100)
      .describe('Requests under way on one HTTP/2 connection at most.'),
    overload: overload
      .prefault({})
      .describe('When requests are shed with 503, by priority, before the process drowns.'),
    healthPath: ownPath.default('/health').describe('Answered with 200 while the process lives.'),
    readyPath: ownPath.default('/ready').describe('Answered with 200 while it takes requests.'),
  })
  .prefault({})

const apiKeys = z.strictObject({
  header: headerName.default('x-api-key').describe('The header field that carries the key.'),
  secret: secret.describe('The secret of the HMAC by which keys are looked up.'),
  file: fileName.describe('The file of known keys, as HMACs.'),
  required: z.boolean().default(false).describe('Whether a request without a key gets 401.'),
})

const jwt = z
  .strictObject({
    jwksUrl: z
      .url({ protocol: /^https?$/, error: 'a URL that begins with https:// or http://' })
      .optional()
      .describe('Where the public keys are.'),
    jwksFile: fileName.optional().describe('A file with the public keys, instead of a URL.'),
    issuer: z.string().min(1).max(1_024).optional().describe('What `iss` must be.'),
    audience: z.string().min(1).max(1_024).optional().describe('What `aud` must contain.'),
    algorithms: z
      .array(
        z.enum([
          'RS256',
          'RS384',
          'RS512',
          'PS256',
          'PS384',
          'PS512',
          'ES256',
          'ES384',
          'ES512',
          'EdDSA',
        ]),
      )
      .min(1)
      .default(['RS256', 'ES256'])
      .describe('Signatures that are accepted.'),
    required: z.boolean().default(false).describe('Whether a request without a token gets 401.'),
    organisationClaim: z.string().min(1).max(128).default('org').describe('The organisation.'),
    tierClaim: z.string().min(1).max(128).optional().describe('The claim with the tier, if any.'),
    clockTolerance: duration.default(5_000).describe('How far clocks may differ.'),
  })
  .refine((value) => (value.jwksUrl === undefined) !== (value.jwksFile === undefined), {
    error: 'either jwksUrl or jwksFile',
  })

const certificate = z.strictObject({
  identity: z
    .enum(['commonName', 'san', 'fingerprint'])
    .default('commonName')
    .describe('What of a client certificate says who it is.'),
})

export const authSection = z
  .strictObject({
    apiKeys: apiKeys
      .optional()
      .describe('Known API keys. Without it, the digest of x-api-key tells callers apart.'),
    jwt: jwt.optional().describe('Bearer tokens.'),
    certificate: certificate.prefault({}).describe('Client certificates.'),
  })
  .prefault({})

const originError = 'an origin such as http://127.0.0.1:8081'
const target = z
  .url({ protocol: /^https?$/, error: originError, abort: true })
  .refine((text) => isOrigin(text), { error: originError })

const upstream = z.strictObject({
  targets: z.array(target).min(1).max(64).describe('Where requests go, in turns.'),
  timeouts: z
    .strictObject({
      wait: duration.default(5_000).describe('For a connection to be free; then 503.'),
      connect: duration.default(1_000).describe('For a connection to be made.'),
      response: duration.default(30_000).describe('For the head of the answer to arrive.'),
      idle: duration.default(60_000).describe('Between two pieces of the answer.'),
    })
    .prefault({}),
  healthCheck: z
    .strictObject({
      path: z
        .string()
        .max(1_024)
        .regex(/^\/[\x21-\x7e]*$/, { error: 'a path such as /health, percent-encoded as in a URL' })
        .default('/health')
        .describe('What is asked for.'),
      every: duration.default(5_000).describe('How often.'),
      timeout: duration.default(1_000).describe('How long an answer may take.'),
      unhealthyAfter: whole(1, 100).default(3).describe('Failures in a row.'),
      healthyAfter: whole(1, 100).default(2).describe('Successes in a row.'),
    })
    .optional()
    .describe('Asks every target whether it is well; without it, only ejection finds out.'),
  ejection: z
    .strictObject({
      after: whole(1, 1_000).default(5).describe('Failed answers in a row.'),
      for: duration.default(10_000).describe('How long a target then gets no requests.'),
    })
    .prefault({})
    .describe('Targets that keep failing are left out for a while.'),
  retries: whole(0, 5)
    .default(1)
    .describe('Further targets that are tried where nothing can have happened twice.'),
  connectionsMax: whole(1, 10_000)
    .default(256)
    .describe('Connections to one target at most, besides one for health checks.'),
  waitingMax: whole(1, 1_000_000)
    .default(2_048)
    .describe('Requests under way or waiting for one target at most; more get 503.'),
  clientShareMax: z
    .number()
    .min(0.01)
    .max(1)
    .default(0.5)
    .describe(
      'What one client address may hold of both while nobody else does; with others it is less, ' +
        'so that some are left for the next. 1: everything.',
    ),
  tls: z
    .strictObject({
      ca: fileName.optional().describe('Who signs the certificates of targets, a PEM file.'),
      cert: fileName.optional().describe('Our certificate, a PEM file.'),
      key: fileName.optional().describe('Its private key, a PEM file.'),
      serverName: z.string().min(1).max(255).optional().describe('The name in their certificate.'),
    })
    .optional()
    .describe('For targets with https. Their certificates are always verified.'),
})

export const upstreamsSection = z
  .record(name, upstream)
  .refine((upstreams) => Object.keys(upstreams).length <= 256, { error: 'at most 256 upstreams' })
  .default({})

/** What says where a message ends, or concerns one connection only, is not a route's to change. */
const framingNames: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'content-length'],
  ...['upgrade', 'te', 'trailer', 'expect'],
])

const changedName = headerName.refine((field) => !framingNames.has(field), {
  error: `none of ${[...framingNames].join(', ')}`,
})

const headerChanges = z.strictObject({
  set: z.record(changedName, headerValue).default({}).describe('Fields to set or replace.'),
  remove: z.array(changedName).max(64).default([]).describe('Fields to leave out.'),
})

const route = z.strictObject({
  match: z
    .strictObject({
      path: pathPattern.optional().describe('A pattern such as /v1/**.'),
      methods: z
        .array(method)
        .min(1)
        .max(32)
        .optional()
        .describe('Any of these; GET includes HEAD.'),
      host: z.string().min(1).max(255).toLowerCase().optional().describe('The Host, without port.'),
    })
    .prefault({})
    .describe('Which requests; absent, all.'),
  upstream: name.describe('The name of an upstream.'),
  priority: z
    .enum(priorities)
    .optional()
    .describe('Which requests are shed first in an overload. Default: `normal`.'),
  rewrite: z
    .strictObject({
      stripPrefix: ownPath.optional().describe('Taken off the front of the path.'),
      addPrefix: ownPath.optional().describe('Put in front of the path.'),
    })
    .optional(),
  requestHeaders: headerChanges.optional().describe('Changes to what the upstream gets.'),
  responseHeaders: headerChanges.optional().describe('Changes to what the client gets.'),
})

export const routesSection = z
  .array(route)
  .max(1_024)
  .default([])
  .describe('The first that matches decides. Without any, everything goes to the one upstream.')

export const logSection = z
  .strictObject({
    level: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
      .default('info')
      .describe('The least that is logged.'),
    sampleAllowed: z.number().min(0).max(1).default(0.01).describe('Share of admitted requests.'),
    linesPerSecondMax: whole(1, 1_000_000)
      .default(200)
      .describe('Refusals and degradations logged per second; what is left out is counted.'),
    nodeId: z.string().min(1).max(128).default('auto').describe('This node; auto: its host name.'),
  })
  .prefault({})

export const adminSection = z
  .strictObject({ listen: listen.describe('Where /status, /health and /ready are asked.') })
  .optional()

export type GatewaySection = z.output<typeof gatewaySection>
export type AuthSection = z.output<typeof authSection>
export type ApiKeysSection = z.output<typeof apiKeys>
export type JwtSection = z.output<typeof jwt>
export type UpstreamSection = z.output<typeof upstream>
export type UpstreamsSection = z.output<typeof upstreamsSection>
export type RouteSection = z.output<typeof route>
export type RoutesSection = z.output<typeof routesSection>
export type HeaderChanges = z.output<typeof headerChanges>
export type LogSection = z.output<typeof logSection>
export type AdminSection = z.output<typeof adminSection>

/** No path, no query, no user: where a request goes is decided by the request alone. */
function isOrigin(text: string): boolean {
  const url = URL.parse(text)
  return (
    url !== null &&
    url.pathname === '/' &&
    url.search === '' &&
    url.hash === '' &&
    url.username === ''
  )
}
