/**
 * Idempotency keys, for operators: the state of one, and to forget it so that its request can be
 * executed again. Neither shows the kept response. Keys are in bodies, never in URLs.
 */

import { z } from 'zod'
import { keyParts } from '../../control/live/entries.ts'
import { reason } from '../../control/plain-text.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { forgottenKeyResponse, keyResponse } from '../responses/key-responses.ts'
import { type Call, ok, type Route, route } from '../route.ts'

/** The longest key with quotes and escapes. */
const KEY_LENGTH_MAX = 512

const keyFields = {
  sender: keyParts.describe('A text for each part of `idempotency.scope`.'),
  otherwise: z
    .boolean()
    .default(false)
    .describe('True if the sender is one of `idempotency.otherwise`.'),
  key: z
    .string()
    .min(1)
    .max(KEY_LENGTH_MAX)
    .describe('The key, as the client has sent it in `Idempotency-Key`.'),
}

const lookUpBody = z.strictObject(keyFields)
const forgetBody = z.strictObject({ ...keyFields, why: reason })

export const keyRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/idempotency-keys/look-up',
    role: 'operate',
    action: 'idempotency-key.read',
    summary: 'The state of an idempotency key of a sender',
    response: keyResponse,
    body: lookUpBody,
    async handle(call) {
      const { keys, sender } = senderOf(call)
      const key = await keys.look(sender, call.body.key).catch(unavailable)
      await note(call, 'idempotency-key.read', sender)
      return ok({ key: key ?? null })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/idempotency-keys/forget',
    role: 'operate',
    action: 'idempotency-key.forget',
    summary: 'Forget an idempotency key: its request can be executed again',
    response: forgottenKeyResponse,
    body: forgetBody,
    async handle(call) {
      const { keys, sender } = senderOf(call)
      const before = await keys.look(sender, call.body.key).catch(unavailable)
      await note(call, 'idempotency-key.forget', sender, call.body.why)
      const isForgotten = await keys.forget(sender, call.body.key).catch(unavailable)
      return ok({ before: before ?? null, isForgotten })
    },
  }),
]

type KeyCall = Call<z.output<typeof lookUpBody>>

function senderOf({ context, body }: KeyCall) {
  const keys = context.keys()
  if (keys === undefined) throw new ApiError(422, 'the policy in force has no idempotency keys')
  const sender = keys.senderOf(body.sender, body.otherwise)
  if (sender.ok) return { keys, sender: sender.text }
  throw new ApiError(422, sender.problem)
}

function unavailable(error: unknown): never {
  const text = error instanceof Error ? error.message : String(error)
  throw new ApiError(503, `the store of idempotency keys does not answer: ${text}`)
}

/** Written first: without a record there is no change. */
async function note(
  { context, author, body }: KeyCall,
  action: string,
  sender: string,
  why?: string,
): Promise<void> {
  await context.changes.note({
    ...author,
    action,
    target: { type: 'idempotency-key', keyHash: context.digest(`${sender} ${body.key}`) },
    ...(why === undefined ? undefined : { reason: why }),
    result: 'done',
  })
}
