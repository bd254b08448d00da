/** The section `tiers` of a policy: which tiers there are, and how a caller's is found. */

import { z } from 'zod'
import { duration, fileName, name, whole } from './fields.ts'
import { priorities } from './priority.ts'

export const tierOwners = ['apiKey', 'user', 'organisation'] as const

export type TierOwner = (typeof tierOwners)[number]

const lookup = z
  .strictObject({
    claim: z.string().min(1).max(128).optional().describe('A claim of the token says the tier.'),
    file: fileName.optional().describe('A YAML file of ids and their tiers, beside the policy.'),
    url: z
      .string()
      .max(2_048)
      .refine(isTemplate, { error: 'a URL such as http://tiers.internal/v1/{key}' })
      .optional()
      .describe('Asked with the id in place of `{key}`; answers `{"tier": "premium"}` or 404.'),
    by: z.enum(tierOwners).optional().describe('Whose id, for `file` and `url`.'),
    timeout: duration.optional().describe('For an answer of `url`. Default: 500ms.'),
  })
  .describe('Exactly one of `claim`, `file` and `url`.')

const cache = z.strictObject({
  entries: whole(1, 1_000_000).default(10_000).describe('Ids remembered; the longest unused goes.'),
  ttl: duration.default(300_000).describe('How long an answer holds before it is asked again.'),
  negativeTtl: duration.default(30_000).describe('The same for 404 and for failed look-ups.'),
})

export const tiersSection = z
  .strictObject({
    names: z.array(name).min(1).max(32).describe('All tiers, such as free, basic, premium.'),
    default: name.describe('The tier of callers that have none.'),
    lookup: lookup
      .optional()
      .describe('How the tier is found where the API key does not carry it.'),
    priorities: z
      .record(name, z.enum(priorities))
      .optional()
      .describe('Priorities of tiers in an overload; of other tiers: `normal`.'),
    cache: cache.prefault({}).describe('For `lookup.url`.'),
  })
  .describe('Kinds of callers with different limits.')

export type TiersSection = z.output<typeof tiersSection>
export type TierLookupSection = z.output<typeof lookup>
export type TierCacheSection = z.output<typeof cache>

/** The id goes into the path or the query, so that it cannot choose the host. */
function isTemplate(text: string): boolean {
  const url = URL.parse(text.replaceAll('{key}', 'key'))
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '') return false
  const originEndsAt = text.indexOf('/', text.indexOf('://') + 3)
  const keyAt = text.indexOf('{key}')
  return originEndsAt !== -1 && keyAt > originEndsAt && !text.includes('#')
}
