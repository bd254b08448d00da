/** The section `store` of a policy: where the counters are. */

import { z } from 'zod'
import { duration, fileName, hostAndPort, secret, whole } from './fields.ts'

export const storeModes = ['memory', 'standalone', 'sentinel', 'cluster'] as const

export type StoreMode = (typeof storeModes)[number]

const tls = z.union([
  z.literal(true),
  z.strictObject({
    ca: fileName.optional().describe('Certificates of authorities to trust, instead of the usual.'),
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
      .describe('`memory` counts in each process for itself; the others share counters in Redis.'),
    addresses: z
      .array(hostAndPort)
      .min(1)
      .max(64)
      .optional()
      .describe('`host:port` of the server, of the Sentinels, or of some nodes of the cluster.'),
    sentinelName: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe('The name of the master that the Sentinels watch.'),
    username: z.string().min(1).max(128).optional().describe('The user for Redis.'),
    password: secret.optional().describe('The password for Redis.'),
    sentinelPassword: secret.optional().describe('The password for the Sentinels.'),
    database: whole(0, 1_000_000).optional().describe('The database; not with a cluster.'),
    tls: tls.optional().describe('TLS to Redis: `true`, or which certificates.'),
    prefix: z
      .string()
      .regex(/^[A-Za-z0-9_.:-]{1,32}$/, { error: '1 to 32 of A-Z a-z 0-9 _ . : -' })
      .default('tg')
      .describe('What all keys begin with.'),
    deadline: duration
      .optional()
      .describe(
        'How long Redis may be silent after a command; then the limit’s `onStoreError` decides. ' +
          'By default three times the measured round trip, from `15ms` to `100ms`.',
      ),
    queue: duration
      .default(1_000)
      .describe('How long a decision may wait to be sent; then the limit’s `onOverload` decides.'),
    durability: z
      .enum(['memory', 'replicated'])
      .default('memory')
      .describe('`replicated` waits until a replica has each charge.'),
  })
  .superRefine((section, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    if (section.mode !== 'memory' && section.addresses === undefined) {
      refuse('addresses', `mode ${section.mode} needs addresses such as [localhost:6379]`)
    }
    if (section.mode === 'standalone' && (section.addresses?.length ?? 1) > 1) {
      refuse('addresses', 'mode standalone has one address')
    }
    if ((section.mode === 'sentinel') !== (section.sentinelName !== undefined)) {
      refuse('sentinelName', 'is needed with mode sentinel, and only there')
    }
    if (section.mode === 'cluster' && (section.database ?? 0) !== 0) {
      refuse('database', 'a cluster has database 0 only')
    }
  })
  .describe('Where the counters are.')

export type StoreSection = z.output<typeof storeSection>
