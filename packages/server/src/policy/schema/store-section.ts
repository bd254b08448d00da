/** The section `store` of a policy: the store of the counters. */

import { z } from 'zod'
import { duration, fileName, hostAndPort, integer, secret } from './field-types.ts'

export const storeModes = ['memory', 'standalone', 'sentinel', 'cluster'] as const

export type StoreMode = (typeof storeModes)[number]

const tls = z.union([
  z.literal(true),
  z.strictObject({
    ca: fileName.optional().describe('Trusted CA certificates, instead of those of the system.'),
    cert: fileName.optional().describe('A client certificate.'),
    key: fileName.optional().describe('The key of the client certificate.'),
    serverName: z.string().min(1).max(255).optional().describe('The name in its certificate.'),
  }),
])

export const storeSection = z
  .strictObject({
    mode: z
      .enum(storeModes)
      .default('memory')
      .describe('`memory` counts in each process; the others share counters in Redis.'),
    addresses: z
      .array(hostAndPort)
      .min(1)
      .max(64)
      .optional()
      .describe('`host:port` of the server, of the Sentinels, or of nodes of the cluster.'),
    sentinelName: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe('The name of the master in the Sentinels.'),
    username: z.string().min(1).max(128).optional().describe('The user for Redis.'),
    password: secret.optional().describe('The password for Redis.'),
    sentinelPassword: secret.optional().describe('The password for the Sentinels.'),
    database: integer(0, 1_000_000).optional().describe('The database; not with a cluster.'),
    tls: tls.optional().describe('TLS to Redis: `true`, or its certificates.'),
    prefix: z
      .string()
      .regex(/^[A-Za-z0-9_.:-]{1,32}$/, { error: '1 to 32 of A-Z a-z 0-9 _ . : -' })
      .default('tg')
      .describe('The prefix of all keys.'),
    deadline: duration
      .optional()
      .describe(
        'How long Redis may be silent after a command; then the limit’s `onStoreError` decides. ' +
          'By default three times the measured round trip, from `15ms` to `100ms`.',
      ),
    queue: duration
      .default(1_000)
      .describe('A decision that waits longer to be sent is made by `onOverload` of its limit.'),
    durability: z
      .enum(['memory', 'replicated'])
      .default('memory')
      .describe('`replicated` waits until a replica has confirmed each charge.'),
    buckets: integer(0, 1_024)
      .optional()
      .describe(
        'With a cluster: how many slots the keys share, at least 10 for each master; 0 for a ' +
          'slot for each key. A change resets all counters. By default 32.',
      ),
  })
  .superRefine((section, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    if (section.mode !== 'memory' && section.addresses === undefined) {
      refuse('addresses', `with mode ${section.mode}, addresses such as [localhost:6379]`)
    }
    if (section.mode === 'memory' && section.addresses !== undefined) {
      refuse(
        'addresses',
        'with mode memory, none; Redis needs mode standalone, sentinel or cluster',
      )
    }
    if (section.mode === 'standalone' && (section.addresses?.length ?? 1) > 1) {
      refuse('addresses', 'with mode standalone, one address')
    }
    if ((section.mode === 'sentinel') !== (section.sentinelName !== undefined)) {
      refuse('sentinelName', 'a name with mode sentinel, and none with the others')
    }
    if (section.mode !== 'cluster' && section.buckets !== undefined) {
      refuse('buckets', 'only with mode cluster')
    }
    if (section.mode === 'cluster' && (section.database ?? 0) !== 0) {
      refuse('database', '0, the only database of a cluster')
    }
  })
  .describe('The store of the counters.')

export type StoreSection = z.output<typeof storeSection>
