/** Responses about idempotency keys. */

import { z } from 'zod'

const keyState = z.strictObject({
  state: z
    .enum(['running', 'done', 'released', 'lost'])
    .describe('`released`: it may be executed again. `lost`: its owner has left without a result.'),
  leaseLeftMs: z.number().describe('The time until another request may take over, if it runs.'),
  expiresInMs: z.number().describe('The time until the key is forgotten.'),
  resultBytes: z.number().describe('The size of the kept response as it is stored.'),
})

export const keyResponse = z.strictObject({
  key: keyState.nullable().describe('Null if the key is not known.'),
})

export const forgottenKeyResponse = z.strictObject({
  before: keyState.nullable().describe('Null if the key was not known.'),
  isForgotten: z.boolean(),
})
