/** Responses about the policy, its versions and its canary. */

import { z } from 'zod'
import { isoTime } from './common.ts'
import { livePolicy } from './status-responses.ts'

const versionFields = {
  version: z.int().min(1),
  hash: z.string(),
  by: z.string(),
  at: isoTime,
  why: z.string(),
  parent: z.int().min(0).describe('The version before; 0 for the first one.'),
  rollbackOf: z.int().min(1).optional(),
}

export const versionSummary = z.strictObject(versionFields)

export const versionResponse = z.strictObject({ ...versionFields, text: z.string() })

export const policyResponse = z.strictObject({
  live: livePolicy,
  current: versionResponse.nullable().describe('The published version; null without one.'),
})

export const versionsResponse = z.strictObject({ versions: z.array(versionSummary) })

export const diffResponse = z.strictObject({ from: z.int(), to: z.int(), diff: z.string() })

export const canary = z.strictObject({
  version: z.int().min(1),
  hash: z.string(),
  where: z
    .strictObject({
      region: z.string().optional(),
      nodes: z.array(z.string()).optional(),
      share: z.number().optional(),
    })
    .describe('The nodes of the canary: one of the three.'),
  until: isoTime,
})

export const canaryResponse = z.strictObject({ canary: canary.nullable() })

export const abortResponse = z.strictObject({
  ended: z.int().min(1).describe('The version of the canary that has ended.'),
})
