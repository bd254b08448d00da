/**
 * Responses of the routes for the console: limits, one client, and what another policy would have
 * done. `console-types.ts` has the same shapes as types, with which the page is compiled.
 */

import { z } from 'zod'
import type { ClientView, LimitHistory, LimitView, WhatIf } from '../console/console-types.ts'

const count = z.number().int().min(0)
const ms = z.number()
const numbers = z.string().describe('In words, such as `100 per 1m`.')

const limit: z.ZodType<LimitView> = z.strictObject({
  name: z.string(),
  mode: z.enum(['enforce', 'shadow', 'off']),
  algorithm: z.string(),
  numbers,
  limit: z.number(),
  tiers: z.record(z.string(), z.string()),
  key: z.string().describe('The kind of key, such as `apiKey`.'),
  keyParts: count,
  match: z.string().describe('The requests that it is for, in words.'),
  rollout: z.number(),
  within: z.string().nullable(),
})

export const limitsResponse = z.strictObject({ limits: z.array(limit) })

const history: z.ZodType<LimitHistory> = z.strictObject({
  name: z.string(),
  stepMs: ms,
  endMs: ms,
  allowed: z.array(z.number()),
  denied: z.array(z.number()),
  shadowDenied: z.array(z.number()),
})

export const historyResponse = z.strictObject({
  history: history.nullable().describe('Null for a limit without decisions.'),
})

const refusals = z.strictObject({
  limit: z.string(),
  key: z.string(),
  isShadow: z.boolean(),
  count,
  sinceMs: ms,
  lastMs: ms,
  last: z.array(
    z.strictObject({ atMs: ms, reason: z.string(), retryAfterMs: z.number().nullable() }),
  ),
})

const limitOfClient = z.strictObject({
  keyKind: z.string(),
  keyParts: z.array(z.string()),
  within: z.array(z.string()).nullable(),
  keyHash: z.string(),
  source: z.string().describe('The origin of the numbers: live override, override, tier, limit.'),
  override: z.string().nullable().describe('The id of the live override.'),
  isFallback: z.boolean(),
  numbers,
  limit: z.number(),
  used: z.number(),
  left: z.number(),
  held: z.number().nullable(),
  leased: z.number().nullable(),
  resetAfterMs: z.number().nullable(),
  shard: z.string().nullable(),
  isCertain: z.boolean().describe('False if the store did not answer.'),
  refusals: refusals.nullable(),
})

const block = z.strictObject({
  id: z.string(),
  kind: z.string(),
  answer: z.number(),
  untilMs: z.number().nullable(),
})

const client = {
  kind: z.string(),
  value: z.string(),
  tier: z.string().nullable(),
  list: z.string().nullable().describe('The list of `ipLists` that the address is on.'),
  switch: z.enum(['on', 'shadow', 'off']),
  block: block.nullable(),
  limits: z.array(
    z.strictObject({
      name: z.string(),
      mode: z.string(),
      reason: z.string().nullable().describe('Why it does not apply; null if it does.'),
      state: limitOfClient.nullable(),
    }),
  ),
}

export const clientResponse = z.strictObject(client) satisfies z.ZodType<ClientView>

const whatIfLimit = z.strictObject({
  name: z.string(),
  before: numbers,
  after: numbers,
  keys: count.describe('Keys that were replayed.'),
  keysSeen: count,
  asked: z.number(),
  deniedBefore: z.number(),
  deniedAfter: z.number(),
  newlyRefused: z.array(z.strictObject({ key: z.string(), denied: z.number() })),
  newlyRefusedKeys: count,
  reason: z.string().nullable().describe('Why it cannot be replayed; null if it was.'),
})

const whatIf = {
  problems: z.array(z.string()),
  seconds: z.number().describe('Seconds of traffic that were replayed.'),
  limits: z.array(whatIfLimit),
  added: z.array(z.string()),
  removed: z.array(z.string()),
  unchanged: count,
}

export const whatIfResponse = z.strictObject(whatIf) satisfies z.ZodType<WhatIf>
