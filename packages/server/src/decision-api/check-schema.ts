/**
 * The schemas of requests and responses of the decision API. Requests are parsed by them, and the
 * OpenAPI document is generated from them.
 */

import { z } from 'zod'

const text = (bytes: number) => z.string().max(bytes)

const identity = z
  .strictObject({
    apiKey: text(256).optional().describe('The id of an API key, never the key itself.'),
    user: text(256).optional(),
    organisation: text(256).optional(),
    tier: text(64).optional(),
    certificate: text(256).optional(),
    claims: z.record(text(128), z.unknown()).optional().describe('The claims of a verified token.'),
  })
  .describe('The identity of the client, as verified by the caller.')

const request = z
  .strictObject({
    method: z
      .string()
      .regex(/^[A-Za-z]{1,32}$/, { error: 'a method such as GET or POST' })
      .default('GET'),
    path: text(8_192)
      .regex(/^\/[^?#]*$/, { error: 'a path that begins with / and has no query' })
      .default('/')
      .describe('Without a query; matched without normalisation.'),
    ip: text(64).optional().describe('The address of the client.'),
    headers: z.record(text(128), text(8_192)).default({}),
    identity: identity.default({}),
  })
  .describe('The facts of the request that limits match and count by.')

const named = z.strictObject({
  name: text(64).describe('A limit of the policy.'),
  key: z
    .array(text(1_024))
    .max(8)
    .default([])
    .describe('A text for each part of its key, in the order of the policy.'),
  cost: z
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('Default: the cost of the check.'),
})

const cost = z.int().min(0).max(Number.MAX_SAFE_INTEGER)
const peek = z.boolean().default(false).describe('Decides without charging.')

export const checkByRequest = z
  .strictObject({
    request,
    cost: cost.optional().describe('Replaces the cost that the limits declare; 0 changes nothing.'),
    peek,
  })
  .describe('Evaluated by all limits that match, as in the gateway.')

export const checkByNames = z
  .strictObject({
    limits: z.array(named).min(1).max(64).describe('All are charged, or none.'),
    cost: cost.default(1).describe('Units to charge; 0 changes nothing.'),
    tier: text(64).optional().describe('The tier of the caller.'),
    peek,
  })
  .describe('Evaluated by these limits; their `match` is ignored.')

/** Either a request, for the limits that match it, or limits by their names. */
export const check = z.union([checkByRequest, checkByNames])

export type Check = z.output<typeof check>

const degraded = z
  .object({ reason: z.string(), mode: z.enum(['open', 'closed', 'local', 'shed']) })
  .nullable()
  .describe('If the store did not answer: the reason, and the declared mode that decided.')

const decision = {
  allowed: z.boolean(),
  limit: z.int().describe('Capacity: the largest cost that can be granted at once.'),
  remaining: z.int().describe('Units that are left.'),
  retryAfterMs: z.number().nullable().describe('The wait that admits; null if no wait ever does.'),
  resetAfterMs: z.number().nullable().describe('The time until no unit is used any more.'),
  degraded,
}

const limitResult = z.object({ name: z.string(), ...decision })

export const checkResult = z
  .object({
    outcome: z.enum(['admitted', 'denied', 'unavailable', 'missing-key', 'forbidden', 'blocked']),
    allowed: z.boolean(),
    refusedBy: z.string().nullable().describe('The limit that denied.'),
    decision: z.object(decision).nullable().describe('Of the most restrictive limit.'),
    limits: z.array(limitResult).describe('Each limit that applied.'),
    shadowed: z.array(limitResult).describe('The results of limits in shadow mode.'),
  })
  .describe('The decision.')

export type CheckResult = z.output<typeof checkResult>
