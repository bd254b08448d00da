/**
 * The sections of a policy that say what is limited: `limits`, `overrides` and `ipLists`. What
 * holds between fields is checked in policy-rules.ts.
 */

import { accuracies, failureModes, overloadModes } from 'tidegate'
import { z } from 'zod'
import { cidr, duration, headerName, method, name, whole } from './fields.ts'
import { pathPattern } from './path-pattern.ts'
import { priorities } from './priority.ts'

export const algorithms = [
  'tokenBucket',
  'slidingWindow',
  'slidingLog',
  'fixedWindow',
  'concurrency',
] as const

/** Parts of a key that need no more than their name. */
export const plainKeys = [
  'apiKey',
  'user',
  'organisation',
  'certificate',
  'ip',
  'ip+userAgent',
  'path',
  'method',
  'route',
  'region',
  'tier',
  'everyone',
] as const

/** Every limit is looked at for every request. */
const LIMITS_MAX = 256

/** As many as fit a policy file, and each is an entry of a table. */
const OVERRIDES_MAX = 10_000

const ADDRESSES_MAX = 10_000

/** Longer keys name nothing that anybody could tell apart. */
const KEY_PARTS_MAX = 8

const UNITS_MAX = Number.MAX_SAFE_INTEGER

/** Costs beyond this are a mistake: a limit that grants them can be counted in larger units. */
const COST_MAX = 1_000_000

/** A text, also where YAML reads it as a number or a truth value. */
const scalarText = z
  .union([z.string(), z.number(), z.boolean()], { error: 'a text' })
  .refine((value) => typeof value !== 'number' || Number.isSafeInteger(value), {
    error: 'a text in quotes, because as a number it would lose digits',
  })
  .transform(String)

const period = z.union([z.enum(['day', 'week', 'month']), duration], {
  error: 'a time such as 250ms, 10s, 5m, 1h or 1d; with fixedWindow also day, week, month',
})

const headerValues = z
  .union([scalarText, z.array(scalarText).min(1).max(64)], {
    error: 'a value, a list of values, or "*" for any value',
  })
  .transform((value) => (Array.isArray(value) ? value : [value]))

export const matchSection = z.strictObject({
  methods: z
    .array(method)
    .min(1)
    .max(32)
    .optional()
    .describe('Any of these methods; GET includes HEAD.'),
  path: z
    .union([pathPattern, z.array(pathPattern).min(1).max(64)], {
      error: 'a path such as /v1/users, /v1/*/items or /v1/**, or a list of them',
    })
    .transform((value) => (Array.isArray(value) ? value : [value]))
    .optional()
    .describe('A pattern or a list of them: `*` is one segment, `**` any number.'),
  headers: z
    .record(headerName, headerValues)
    .optional()
    .describe('Header fields with their value, a list of values, or `"*"` for any. All must fit.'),
  region: name.optional().describe('Only on nodes of this region.'),
})

const keyText =
  `${plainKeys.join(', ')}, { header: name }, { claim: name }, { ip: bits of IPv6 } ` +
  'or a list of those'

const keyPart = z.union(
  [
    z.enum(plainKeys),
    z.strictObject({ header: headerName.describe('The value of this header field.') }),
    z.strictObject({ claim: z.string().min(1).max(128).describe('This claim of the token.') }),
    z.strictObject({ ip: whole(32, 128).describe('The address; IPv6 by this many bits.') }),
  ],
  { error: keyText },
)

const key = z.union([keyPart, z.array(keyPart).min(1).max(KEY_PARTS_MAX)], { error: keyText })

const fallbackText = `deny, skip, another key, or { key, otherwise }; a key is ${keyText}`

const ends = z.enum(['deny', 'skip'])

const lastFallback = z.union([ends, key], { error: fallbackText })

/** Three steps, such as API key, user, address, are more than anybody has been seen to need. */
const fallback = z.union(
  [
    ends,
    key,
    z.strictObject({
      key: key.describe('The key to take instead.'),
      otherwise: lastFallback.default('deny').describe('And where that is missing too.'),
    }),
  ],
  { error: fallbackText },
)

const changeFields = {
  limit: whole(0, UNITS_MAX).optional().describe('Units per period; 0 blocks.'),
  per: period.optional().describe('The period.'),
  burst: whole(1, UNITS_MAX)
    .optional()
    .describe('The most at once, for a token bucket. Where `limit` is given: default `limit`.'),
  ttl: duration.optional().describe('For concurrency: when a slot is free again by itself.'),
}

export const limitChange = z
  .strictObject(changeFields)
  .refine((change) => Object.keys(change).length > 0, { error: 'limit, per, burst or ttl' })

const cost = z.union(
  [
    whole(0, COST_MAX),
    z
      .array(
        z.strictObject({
          match: matchSection.describe('Which requests; the first rule that fits decides.'),
          cost: whole(0, COST_MAX).describe('Units. Where no rule fits: 1.'),
        }),
      )
      .min(1)
      .max(64),
    z.strictObject({
      header: headerName.describe('The header field with the cost.'),
      max: whole(1, COST_MAX).describe('More counts as this.'),
      default: whole(0, COST_MAX).default(1).describe('Where it is no whole number.'),
    }),
  ],
  {
    error: 'a whole number, a list of { match, cost }, or { header, max, default }',
  },
)

export const limitSection = z.strictObject({
  name: name.describe('Its name, in headers, logs and counters. Another name, other counters.'),
  match: matchSection.optional().describe('Which requests; absent, all.'),
  key: key.describe('Whose counter: each different key has its own. A list is one key of parts.'),
  otherwise: fallback
    .optional()
    .describe('For requests without that key: `deny` (401), `skip`, or another key.'),
  algorithm: z.enum(algorithms).default('tokenBucket').describe('How it is counted.'),
  limit: whole(0, UNITS_MAX).describe('Units per period; for concurrency, the most in flight.'),
  per: period.optional().describe('The period. Not for concurrency.'),
  timeZone: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe('For `day`, `week` and `month`, such as Europe/Berlin. Default: UTC.'),
  burst: whole(1, UNITS_MAX)
    .optional()
    .describe('The most at once, for a token bucket. Default: `limit`.'),
  ttl: duration.optional().describe('For concurrency: when a slot is free again by itself.'),
  tiers: z
    .record(name, limitChange)
    .optional()
    .describe('What differs for callers of a tier; other tiers have the limit as it stands.'),
  cost: cost.default(1).describe('Units that a request takes.'),
  mode: z
    .enum(['enforce', 'shadow', 'off'])
    .default('enforce')
    .describe('`shadow` counts and tells, but refuses nobody.'),
  rollout: z.number().min(0).max(100).default(100).describe('For how many percent of keys.'),
  onStoreError: z
    .enum(failureModes)
    .optional()
    .describe('While the store is away: admit, refuse with 503, or enforce a local share.'),
  onOverload: z
    .enum(overloadModes)
    .optional()
    .describe(
      'If a decision waited too long to be sent to the store: refuse with 503 (the default), ' +
        'enforce a local share, or admit.',
    ),
  accuracy: z
    .enum(accuracies)
    .optional()
    .describe(
      'Whether hot keys may be answered without asking the store each time. `synced` holds where ' +
        'no other limit applies to the request; with others, it is `leased`.',
    ),
  priority: z
    .enum(priorities)
    .optional()
    .describe('Which requests are shed first in an overload. Default: `normal`.'),
  within: name
    .optional()
    .describe('The limit that this one belongs to: its counters are those within its key.'),
})

export const limitsSection = z
  .array(limitSection)
  .max(LIMITS_MAX)
  .default([])
  .describe('All that match a request must admit it, in one step, or none is charged.')

const override = z.strictObject({
  limit: name.describe('The name of a limit.'),
  key: z
    .union([scalarText, z.array(scalarText).min(1).max(KEY_PARTS_MAX)], {
      error: 'the key, or a list of its parts',
    })
    .transform((value) => (Array.isArray(value) ? value : [value]))
    .describe('The key, as a list where the key of the limit is one.'),
  set: limitChange.describe('What holds for this key instead, whatever its tier.'),
  expires: z.iso
    .datetime({ offset: true, error: 'a time such as 2026-12-01T00:00:00Z' })
    .transform((text) => Date.parse(text))
    .optional()
    .describe('From then on it does not count any more.'),
})

export const overridesSection = z
  .array(override)
  .max(OVERRIDES_MAX)
  .default([])
  .describe('Other numbers for single keys.')

export const ipListsSection = z
  .strictObject({
    deny: z.array(cidr).max(ADDRESSES_MAX).default([]).describe('Refused with 403.'),
    allow: z.array(cidr).max(ADDRESSES_MAX).default([]).describe('Not limited.'),
  })
  .prefault({})
  .describe('Addresses and CIDRs decided before anything else; the longer prefix wins.')

export type MatchSection = z.output<typeof matchSection>
export type KeyPart = z.output<typeof keyPart>
export type KeySection = z.output<typeof key>
export type FallbackSection = z.output<typeof fallback>
export type LimitChange = z.output<typeof limitChange>
export type CostSection = z.output<typeof cost>
export type LimitSection = z.output<typeof limitSection>
export type OverrideSection = z.output<typeof override>
export type IpListsSection = z.output<typeof ipListsSection>
