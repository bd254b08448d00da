/** The section `auth`: how callers are authenticated. */

import { z } from 'zod'
import { duration, fileName, hasNoUser, headerName, integer, secret } from './field-types.ts'

const apiKeys = z.strictObject({
  header: headerName.default('x-api-key').describe('The header field that carries the key.'),
  secret: secret.describe('The secret of the HMAC by which keys are looked up.'),
  file: fileName.describe(
    'The file of known keys, as HMACs: one JSON object per line (.jsonl, .ndjson), or a YAML list.',
  ),
  required: z.boolean().default(false).describe('Refuses requests without a key with 401.'),
})

const jwksUrlText = 'a URL that begins with https:// or http://, without user and password'

const jwt = z
  .strictObject({
    jwksUrl: z
      .url({ protocol: /^https?$/, error: jwksUrlText, abort: true })
      .refine(hasNoUser, { error: jwksUrlText })
      .optional()
      .describe('The URL of the public keys.'),
    jwksFile: fileName.optional().describe('A file with the public keys, instead of a URL.'),
    issuer: z.string().min(1).max(1_024).optional().describe('The required `iss`.'),
    audience: z.string().min(1).max(1_024).optional().describe('A value that `aud` must contain.'),
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
      .describe('The accepted signature algorithms.'),
    required: z.boolean().default(false).describe('Refuses requests without a token with 401.'),
    organisationClaim: z
      .string()
      .min(1)
      .max(128)
      .default('org')
      .describe('The claim with the organisation.'),
    tierClaim: z.string().min(1).max(128).optional().describe('The claim with the tier, if any.'),
    clockTolerance: duration
      .default(5_000)
      .describe('The largest accepted difference between clocks.'),
  })
  .refine((value) => (value.jwksUrl === undefined) !== (value.jwksFile === undefined), {
    error: 'either jwksUrl or jwksFile',
  })

const certificate = z.strictObject({
  identity: z
    .enum(['commonName', 'san', 'fingerprint'])
    .default('commonName')
    .describe('The field of a client certificate that identifies the client.'),
})

const failures = z
  .union([
    z.literal('off'),
    z.strictObject({
      limit: integer(1, 1_000_000).default(100).describe('Failures at most.'),
      per: duration.default(60_000).describe('The sliding window in which failures count.'),
    }),
  ])
  .prefault({})

export const authSection = z
  .strictObject({
    apiKeys: apiKeys
      .optional()
      .describe('Known API keys. Without it, callers are identified by the digest of x-api-key.'),
    jwt: jwt.optional().describe('Bearer tokens.'),
    certificate: certificate.prefault({}).describe('Client certificates.'),
    failures: failures.describe(
      'Invalid API keys and tokens of one client address, also at the decision API. Beyond ' +
        'the limit, credentials are refused with 429 without being checked; `off` disables it.',
    ),
  })
  .prefault({})

export type AuthSection = z.output<typeof authSection>
export type FailuresSection = AuthSection['failures']
export type JwtSection = z.output<typeof jwt>
