/** Counters of keys: what is used, and changes of it. Keys are in bodies, never in URLs. */

import { z } from 'zod'
import { keyParts } from '../../control/live/entries.ts'
import { reason } from '../../control/plain-text.ts'
import { ApiError } from '../../http-api/api-error.ts'
import {
  type CounterAsked,
  type CounterState,
  type FoundCounter,
  lookUp,
  refundCounter,
  resetCounter,
} from '../../limits/counters.ts'
import { name } from '../../policy/schema/field-types.ts'
import { countersResponse, refundResponse, resetResponse } from '../responses/entry-responses.ts'
import { type AdminContext, type Call, ok, type Route, route } from '../route.ts'

const UNITS_MAX = 1_000_000_000

/** The names of all parts of a key. */
const KIND_LENGTH_MAX = 512

const counter = {
  limit: name.describe('The name of a limit.'),
  key: keyParts,
  kind: z
    .string()
    .max(KIND_LENGTH_MAX)
    .optional()
    .describe('The kind of a fallback key, such as `ip`. Default: the first kind of the limit.'),
  within: keyParts.optional().describe('The outer key, if the limit lies within another.'),
  tier: name.optional().describe('The tier of the caller. Default: the default tier.'),
}

const lookUpBody = z.strictObject({
  ...counter,
  limit: name.optional().describe('Without it, all limits with such a key are looked up.'),
})

const resetBody = z.strictObject({ ...counter, why: reason })

const refundBody = z.strictObject({
  ...counter,
  units: z.int().min(1).max(UNITS_MAX).describe('Units to give back.'),
  why: reason,
})

export const counterRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/counters/look-up',
    role: 'operate',
    action: 'counter.read',
    summary: 'What a key has used of its limits',
    response: countersResponse,
    body: lookUpBody,
    async handle(call) {
      const { limit, key, kind, within, tier } = call.body
      const { context } = call
      const found =
        limit === undefined
          ? context.limits().findCounters(key)
          : [counterOf(call, { limit, key, kind, within, tier })]
      const counters = await Promise.all(found.map((one) => stateOf(context, one)))
      await noteCounter(call, 'counter.read', found[0], limit, undefined)
      return ok({ counters })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/counters/reset',
    role: 'operate',
    action: 'counter.reset',
    summary: 'Forget what a key has used of a limit',
    response: resetResponse,
    body: resetBody,
    async handle(call) {
      const found = counterOf(call, call.body)
      const before = await stateOf(call.context, found)
      await noteCounter(call, 'counter.reset', found, call.body.limit, call.body.why)
      await resetCounter(found)
      return ok({ before, counter: await stateOf(call.context, found) })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/counters/refund',
    role: 'operate',
    action: 'counter.refund',
    summary: 'Give units of a limit back to a key',
    response: refundResponse,
    body: refundBody,
    async handle(call) {
      const { limit, units, why } = call.body
      const found = counterOf(call, call.body)
      await noteCounter(call, 'counter.refund', found, limit, why, { units })
      const counter = await refundCounter(found, units)
      return ok({ counter: shown(call.context, found, counter) })
    },
  }),
]

function counterOf({ context }: Call<unknown>, asked: CounterAsked): FoundCounter {
  const found = context.limits().findCounter(asked)
  if (typeof found === 'string') throw new ApiError(422, found)
  return found
}

async function stateOf(context: AdminContext, found: FoundCounter): Promise<object> {
  return shown(context, found, await lookUp(found))
}

/** With the digest of the key, which the audit and the logs have too. */
function shown({ digest }: AdminContext, { charge }: FoundCounter, state: CounterState): object {
  return { ...state, keyHash: digest(charge.key) }
}

/** Written first: without a record there is no change. */
async function noteCounter(
  { context, author }: Call<unknown>,
  action: string,
  found: FoundCounter | undefined,
  limit: string | undefined,
  why: string | undefined,
  after?: object,
): Promise<void> {
  await context.changes.note({
    ...author,
    action,
    target: {
      type: 'counter',
      ...(limit === undefined ? undefined : { limit }),
      ...(found === undefined ? undefined : { keyHash: context.digest(found.charge.key) }),
    },
    ...(why === undefined ? undefined : { reason: why }),
    ...(after === undefined ? undefined : { after }),
    result: 'done',
  })
}
