/** The section `tiers` of a policy: the tiers, and how the tier of a caller is found. */

import { z } from 'zod'
import { priorities } from '../../limits/priority.ts'
import { duration, fileName, hasNoUser, integer, name } from './field-types.ts'

export const tierOwners = ['apiKey', 'user', 'organisation'] as const

const lookup = z
  .strictObject({
    claim: z.string().min(1).max(128).optional().describe('The claim of the token with the tier.'),
    file: fileName.optional().describe('A YAML file of ids and their tiers, beside the policy.'),
    url: z
      .string()
      .max(2_048)
      .refine(isTemplate, { error: 'a URL such as http://tiers.internal/v1/{key}' })
      .optional()
      .describe(
        'Requested with the id in place of `{key}`; responds `{"tier": "premium"}` or 404.',
      ),
    by: z
      .enum([...tierOwners, 'organization'])
      .transform((word) => (word === 'organization' ? 'organisation' : word))
      .optional()
      .describe('The id to look up, for `file` and `url`.'),
    timeout: duration.optional().describe('The timeout of `url`. Default: 500ms.'),
  })
  .describe('Exactly one of `claim`, `file` and `url`.')

const cache = z.strictObject({
  entries: integer(1, 1_000_000)
    .default(10_000)
    .describe('Cached ids; the least recently used is evicted.'),
  ttl: duration.default(300_000).describe('How long a tier is cached.'),
  negativeTtl: duration.default(30_000).describe('How long a 404 or a failed look-up is cached.'),
})

export const tiersSection = z
  .strictObject({
    names: z.array(name).min(1).max(32).describe('All tiers, such as free, basic, premium.'),
    default: name.describe('The tier of callers without one.'),
    lookup: lookup.optional().describe('How the tier is found if the API key has none.'),
    priorities: z
      .record(name, z.enum(priorities))
      .optional()
      .describe('Priorities of tiers in an overload. Default: `normal`.'),
    cache: cache.prefault({}).describe('For `lookup.url`.'),
  })
  .describe('Groups of callers with different limits.')

export type TiersSection = z.output<typeof tiersSection>

/** The id is inserted into the path or the query, so that it cannot change the host. */
function isTemplate(text: string): boolean {
  const url = URL.parse(text.replaceAll('{key}', 'key'))
  if (url === null || !/^https?:$/.test(url.protocol) || !hasNoUser(text)) return false
  const originEndsAt = text.indexOf('/', text.indexOf('://') + 3)
  const keyAt = text.indexOf('{key}')
  return originEndsAt !== -1 && keyAt > originEndsAt && !text.includes('#')
}
