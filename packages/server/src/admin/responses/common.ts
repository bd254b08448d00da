/**
 * Parts that responses of several routes share. Schemas of responses are strict, so that tests find
 * a field that is not described; the OpenAPI document leaves room for further fields.
 */

import { accuracies, algorithmNames, failureModes, overloadModes } from 'tidegate'
import { z } from 'zod'

export const isoTime = z.iso.datetime({ offset: true })

/** Where changes hold, for programs and for people. */
export const scopeFields = {
  scope: z.enum(['node', 'fleet']),
  note: z.string().describe('`this node only` or `all nodes`.'),
}

/** The numbers of a limit as the engine uses them: times are in milliseconds. */
export const limitNumbers = z.strictObject({
  algorithm: z.enum(algorithmNames),
  limit: z.number(),
  perMs: z.number().optional(),
  per: z
    .union([z.number(), z.strictObject({ unit: z.string(), timeZone: z.string() })])
    .optional()
    .describe('Of fixed windows: milliseconds, or the unit of a calendar.'),
  burst: z.number().optional(),
  unitsPerToken: z.number().optional(),
  unitsPerMs: z.number().optional(),
  ttlMs: z.number().optional(),
  onStoreError: z.enum(failureModes).optional(),
  onOverload: z.enum(overloadModes).optional(),
  accuracy: z.enum(accuracies).optional(),
  split: z.number().optional(),
})
