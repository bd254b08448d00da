/** The section `upstreams`: where requests are forwarded to. */

import { z } from 'zod'
import { duration, fileName, hasNoUser, integer, name } from './field-types.ts'

const originError = 'an origin such as http://127.0.0.1:8081'
const target = z
  .url({ protocol: /^https?$/, error: originError, abort: true })
  .refine((text) => isOrigin(text), { error: originError })

const upstream = z.strictObject({
  targets: z
    .array(target)
    .min(1)
    .max(64)
    .describe('Origins that requests are forwarded to, in turn.'),
  timeouts: z
    .strictObject({
      wait: duration.default(5_000).describe('For a free connection; then 503.'),
      connect: duration.default(1_000).describe('For a connection to be established.'),
      response: duration.default(30_000).describe('For the head of the response to arrive.'),
      idle: duration.default(60_000).describe('Between two chunks of the response.'),
    })
    .prefault({})
    .describe('Timeouts of a request to a target.'),
  healthCheck: z
    .strictObject({
      path: z
        .string()
        .max(1_024)
        .regex(/^\/[\x21-\x7e]*$/, { error: 'a path such as /health, percent-encoded as in a URL' })
        .default('/health')
        .describe('The path of the health check.'),
      every: duration.default(5_000).describe('The interval of checks.'),
      timeout: duration.default(1_000).describe('The timeout of a check.'),
      unhealthyAfter: integer(1, 100)
        .default(3)
        .describe('Failures in a row that make a target unhealthy.'),
      healthyAfter: integer(1, 100)
        .default(2)
        .describe('Successes in a row that make it healthy again.'),
    })
    .optional()
    .describe('Checks the health of every target; without it, only ejection detects failures.'),
  ejection: z
    .strictObject({
      after: integer(1, 1_000).default(5).describe('Failed responses in a row.'),
      for: duration.default(10_000).describe('The time for which the target gets no requests.'),
    })
    .prefault({})
    .describe('Leaves out targets that keep failing.'),
  retries: integer(0, 5)
    .default(1)
    .describe('Further attempts, only if the request cannot have an effect twice.'),
  connectionsMax: integer(1, 10_000)
    .default(256)
    .describe('Connections to one target at most, besides one for health checks.'),
  waitingMax: integer(1, 1_000_000)
    .default(2_048)
    .describe('Open and waiting requests of one target at most; further ones get 503.'),
  clientShareMax: z
    .number()
    .min(0.01)
    .max(1)
    .default(0.5)
    .describe(
      'The share of both that one client address may hold if it is alone; with other clients it ' +
        'is less, so that a new client finds room. 1: everything.',
    ),
  tls: z
    .strictObject({
      ca: fileName.optional().describe('The CA of the targets, a PEM file.'),
      cert: fileName.optional().describe('The client certificate of the gateway, a PEM file.'),
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

export type UpstreamSection = z.output<typeof upstream>
export type UpstreamsSection = z.output<typeof upstreamsSection>

/** Without path, query and user: the request alone determines them. */
function isOrigin(text: string): boolean {
  const url = URL.parse(text)
  return (
    url !== null && url.pathname === '/' && url.search === '' && url.hash === '' && hasNoUser(text)
  )
}
