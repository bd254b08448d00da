/**
 * The sections `limits`, `overrides` and `ipLists` of a policy. Conditions between fields are
 * checked in policy-rules.ts.
 */

import { accuracies, algorithmNames, failureModes, overloadModes } from 'tidegate'
import { z } from 'zod'
import { plainKeys } from '../../limits/limit-settings.ts'
import { priorities } from '../../limits/priority.ts'
import { harmless } from '../problems/shown-fields.ts'
import {
  cidr,
  duration,
  headerName,
  integer,
  method,
  name,
  pathPattern,
  timeError,
} from './field-types.ts'
import { limitRegions } from './regions/regions-section.ts'

/**
 * Every request is compared with every limit. With 1,000 of them, this took 15 µs for rules by
 * header and 36 µs for paths, of the 70 µs that a request takes the gateway.
 */
const LIMITS_MAX = 1_000

/** About as many as fit into a policy file. */
const OVERRIDES_MAX = 10_000

const ADDRESSES_MAX = 10_000

/** No use is known for keys of more parts. */
const KEY_PARTS_MAX = 8

const UNITS_MAX = Number.MAX_SAFE_INTEGER

/** A higher cost is a mistake: such a limit can count in larger units. */
const COST_MAX = 1_000_000

/** A text, also if YAML reads it as a number or a boolean. */
const scalarText = z
  .union([z.string(), z.number(), z.boolean()], { error: 'a text' })
  .refine((value) => typeof value !== 'number' || Number.isSafeInteger(value), {
    error: 'a text in quotes, because as a number it would lose digits',
  })
  .transform(String)

const period = z.union([z.enum(['day', 'week', 'month']), duration], {
  error: timeError(
    'a time such as 250ms, 10s, 5m, 1h or 1d; with fixedWindow also day, week, month',
  ),
})

const headerValues = z
  .union([scalarText, z.array(scalarText).min(1).max(64)], {
    error: 'a value, a list of values, or "*" for any value',
  })
  .transform((value) => (Array.isArray(value) ? value : [value]))

/** Keys of descriptors have a few words; a longer text is a mistake. */
const ENTRY_LENGTH_MAX = 1_024

const entryKey = z.string().min(1).max(ENTRY_LENGTH_MAX)

const domain = z.string().min(1).max(ENTRY_LENGTH_MAX)

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
  domain: z
    .union([domain, z.array(domain).min(1).max(64)], { error: 'a domain, or a list of domains' })
    .transform((value) => (Array.isArray(value) ? value : [value]))
    .optional()
    .describe('Only requests of the rate limit service for these domains.'),
  descriptor: z
    .record(entryKey, headerValues)
    .optional()
    .describe(
      'Only requests of the rate limit service whose descriptor has these entries, with their ' +
        'value, a list of values, or `"*"` for any. All must fit.',
    ),
})

const keyText =
  `${plainKeys.join(', ')}, { header: name }, { claim: name }, { descriptor: key }, ` +
  '{ ip: bits of IPv6 } or a list of those'

const keyPart = z.union(
  [
    z
      .enum([...plainKeys, 'organization'])
      .transform((word) => (word === 'organization' ? 'organisation' : word)),
    z.strictObject({ header: headerName.describe('The value of this header field.') }),
    z.strictObject({ claim: z.string().min(1).max(128).describe('This claim of the token.') }),
    z.strictObject({
      descriptor: entryKey.describe('The entry of this key in a descriptor of Envoy.'),
    }),
    z.strictObject({ ip: integer(32, 128).describe('The address; IPv6 by this many bits.') }),
  ],
  { error: keyText },
)

const key = z.union([keyPart, z.array(keyPart).min(1).max(KEY_PARTS_MAX)], { error: keyText })

const fallbackText = `deny, skip, another key, or { key, otherwise }; a key is ${keyText}`

const ends = z.enum(['deny', 'skip'])

const lastFallback = z.union([ends, key], { error: fallbackText })

/** Three keys, such as API key, user and address, are enough for every known use. */
const fallback = z.union(
  [
    ends,
    key,
    z.strictObject({
      key: key.describe('The key to use instead.'),
      otherwise: lastFallback.default('deny').describe('For requests without that key as well.'),
    }),
  ],
  { error: fallbackText },
)

const changeFields = {
  limit: integer(0, UNITS_MAX).optional().describe('Units per period; 0 blocks.'),
  per: period.optional().describe('The period.'),
  burst: integer(1, UNITS_MAX)
    .optional()
    .describe('For a token bucket: the most units at once. Default: `limit`, if that is given.'),
  ttl: duration
    .optional()
    .describe('For concurrency: a slot of a dead process is free after this time.'),
}

export const limitChange = z
  .strictObject(changeFields)
  .refine((change) => Object.keys(change).length > 0, { error: 'limit, per, burst or ttl' })

const cost = z.union(
  [
    integer(0, COST_MAX),
    z
      .array(
        z.strictObject({
          match: matchSection.describe('The requests of this rule; the first match decides.'),
          cost: integer(0, COST_MAX).describe('Units. If no rule matches: 1.'),
        }),
      )
      .min(1)
      .max(64),
    z.strictObject({
      header: headerName.describe('The header field with the cost.'),
      max: integer(1, COST_MAX).describe('The highest cost.'),
      default: integer(0, COST_MAX)
        .default(1)
        .describe('The cost if the field is not a whole number.'),
    }),
  ],
  {
    error: 'a whole number, a list of { match, cost }, or { header, max, default }',
  },
)

export const limitSection = z.strictObject({
  name: name.describe('Its name in headers, logs and counters. A new name starts new counters.'),
  match: matchSection.optional().describe('The requests that are limited; without it, all.'),
  key: key.describe(
    'The key: every different value has its own counter. A list is one key of several parts.',
  ),
  otherwise: fallback
    .optional()
    .describe('For requests without that key: `deny` (401), `skip`, or another key.'),
  algorithm: z.enum(algorithmNames).default('tokenBucket').describe('The algorithm.'),
  limit: integer(0, UNITS_MAX).describe('Units per period; for concurrency, requests in flight.'),
  per: period.optional().describe('The period; not for concurrency.'),
  timeZone: harmless(z.string().min(1).max(64))
    .optional()
    .describe('For `day`, `week` and `month`, such as Europe/Berlin. Default: UTC.'),
  burst: integer(1, UNITS_MAX)
    .optional()
    .describe('For a token bucket: the most units at once. Default: `limit`.'),
  ttl: duration
    .optional()
    .describe('For concurrency: a slot of a dead process is free after this time.'),
  tiers: z
    .record(name, limitChange)
    .optional()
    .describe('Other numbers for callers of a tier; all other tiers have those of the limit.'),
  cost: cost.default(1).describe('Units that a request takes.'),
  mode: z
    .enum(['enforce', 'shadow', 'off'])
    .default('enforce')
    .describe('`shadow` counts and reports, but never refuses.'),
  rollout: z
    .number()
    .min(0)
    .max(100)
    .default(100)
    .describe('The percentage of keys that are limited.'),
  onStoreError: z
    .enum(failureModes)
    .optional()
    .describe('While the store does not answer: admit, refuse with 503, or enforce a local share.'),
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
      'Whether a process may decide for hot keys itself. `synced` applies if no other limit ' +
        'applies to the request; otherwise it is `leased`.',
    ),
  priority: z
    .enum(priorities)
    .optional()
    .describe('The order in which requests are shed in an overload. Default: `normal`.'),
  within: name
    .optional()
    .describe('The limit whose key contains this one: counters of both are charged in one step.'),
  regions: limitRegions
    .optional()
    .describe('How regions share the limit. Without it, each region has the whole limit.'),
})

export const limitsSection = z
  .array(limitSection)
  .max(LIMITS_MAX)
  .default([])
  .describe('All limits that match a request are charged in one step, or none.')

const override = z.strictObject({
  limit: name.describe('The name of a limit.'),
  key: z
    .union([scalarText, z.array(scalarText).min(1).max(KEY_PARTS_MAX)], {
      error: 'the key, or a list of its parts',
    })
    .transform((value) => (Array.isArray(value) ? value : [value]))
    .describe('The key; a list if the key of the limit is a list.'),
  set: limitChange.describe('The numbers of this key, whatever its tier.'),
  expires: harmless(z.iso.datetime({ offset: true, error: 'a time such as 2026-12-01T00:00:00Z' }))
    .transform((text) => Date.parse(text))
    .optional()
    .describe('The override ends at this time.'),
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
  .describe('Addresses and CIDRs, checked before all limits; the longest prefix wins.')

export type MatchSection = z.output<typeof matchSection>
export type KeyPart = z.output<typeof keyPart>
export type KeySection = z.output<typeof key>
export type FallbackSection = z.output<typeof fallback>
export type LimitChange = z.output<typeof limitChange>
export type LimitSection = z.output<typeof limitSection>
