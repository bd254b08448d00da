/** Responses about overrides, blocks, the switch, counters and top lists. */

import { z } from 'zod'
import { blockTargetFields, keyParts } from '../../control/live/entries.ts'
import { switchStates } from '../../limits/live/live-entries.ts'
import { rankings } from '../../observability/top/top-lists.ts'
import { isoTime, limitNumbers, scopeFields } from './common.ts'

const origin = {
  by: z.string(),
  at: isoTime,
  why: z.string(),
  expires: isoTime.nullable().describe('Null for no end.'),
}

const override = z.strictObject({
  limit: z.string(),
  key: keyParts,
  set: z
    .strictObject({
      limit: z.number().optional(),
      per: z.string().optional(),
      burst: z.number().optional(),
      ttl: z.string().optional(),
    })
    .describe('The numbers of this key, as they were written.'),
  ...origin,
})

const block = z.strictObject({
  ...blockTargetFields,
  answer: z.union([z.literal(403), z.literal(429)]),
  ...origin,
})

const switchFields = {
  limits: z.enum(switchStates),
  blocks: z.enum(['on', 'off']),
}

const switchEntry = z.strictObject({ ...switchFields, ...origin })

const listed = { id: z.string(), isExpired: z.boolean() }

const page = {
  next: z.string().nullable().describe('The next page, as the field `from` of the query.'),
  ...scopeFields,
}

export const overridesResponse = z.strictObject({
  overrides: z.array(override.extend(listed)),
  ...page,
})

export const blocksResponse = z.strictObject({ blocks: z.array(block.extend(listed)), ...page })

export const switchResponse = z.strictObject({
  switch: z.union([switchEntry, z.strictObject(switchFields)]),
  ...scopeFields,
})

const change = {
  audit: z.int().min(1).describe('The number of the audit record.'),
  revision: z.string(),
  ...scopeFields,
}

export const overrideChange = z.strictObject({ entry: override, ...change })

export const blockChange = z.strictObject({ entry: block, ...change })

export const switchChange = z.strictObject({ entry: switchEntry, ...change })

const forgottenRegion = z.strictObject({
  region: z.string(),
  by: z.string(),
  at: isoTime,
  why: z.string(),
})

export const forgottenChange = z.strictObject({ entry: forgottenRegion, ...change })

export const removal = z.strictObject({ removed: z.literal(true), ...change })

export const counterState = z.strictObject({
  limit: z.string(),
  keyHash: z.string(),
  numbers: limitNumbers,
  used: z.number(),
  left: z.number(),
  held: z.number().nullable(),
  leased: z.number().nullable().describe('Unspent units in the lease of this node.'),
  resetAfterMs: z.number().nullable(),
  shard: z.string().nullable(),
  isCertain: z.boolean().describe('False if the store did not answer.'),
})

export const countersResponse = z.strictObject({ counters: z.array(counterState) })

export const resetResponse = z.strictObject({ before: counterState, counter: counterState })

export const refundResponse = z.strictObject({ counter: counterState })

export const topResponse = z.strictObject({
  by: z.enum(rankings),
  since: isoTime,
  total: z.number(),
  keys: z.array(
    z.strictObject({
      limit: z.string(),
      key: z.string().describe('The key, or its digest.'),
      count: z.number(),
      error: z.number(),
    }),
  ),
  note: z.string(),
})
