/** Overrides, blocks and the switch. */

import { z } from 'zod'
import {
  BLOCKS_MAX,
  BLOCKS_PREFIX,
  type BlockTarget,
  blockKey,
  blockProblem,
  blockTargetFields,
  canonicalValue,
  ENTRY_BYTES_MAX,
  entryOf,
  keyParts,
  OVERRIDES_MAX,
  OVERRIDES_PREFIX,
  overrideKey,
  type StoredBlock,
  type StoredOverride,
  type StoredSwitch,
  SWITCH_KEY,
  switchOf,
} from '../../control/live/entries.ts'
import { reason } from '../../control/plain-text.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { switchStates } from '../../limits/live/live-entries.ts'
import { name } from '../../policy/schema/field-types.ts'
import { limitChange } from '../../policy/schema/limits-section.ts'
import { changeEntry, removeEntry } from '../change-entry.ts'
import { type End, endFields, expiryOf } from '../expiry.ts'
import {
  blockChange,
  blocksResponse,
  overrideChange,
  overridesResponse,
  removal,
  switchChange,
  switchResponse,
} from '../responses/entry-responses.ts'
import { type AdminContext, type Call, ok, type Route, route, scopeOf } from '../route.ts'

/** A switch is forgotten more often than used. */
const SWITCH_MS_DEFAULT = 3_600_000

const overrideBody = z.strictObject({
  limit: name.describe('The name of a limit.'),
  key: keyParts,
  // The entry keeps the numbers as they were written, so that people can read it.
  set: z.unknown().describe('The numbers of this key: limit, per, burst or ttl.'),
  ...endFields,
  why: reason,
})

const overrideRemoval = z.strictObject({ limit: name, key: keyParts, why: reason })

const blockBody = z.strictObject({
  ...blockTargetFields,
  answer: z
    .union([z.literal(403), z.literal(429)])
    .default(403)
    .describe('The status of the response.'),
  ...endFields,
  why: reason,
})

const blockRemoval = z.strictObject({ ...blockTargetFields, why: reason })

const switchBody = z.strictObject({
  limits: z.enum(switchStates).describe('`shadow` counts and never refuses; `off` counts nothing.'),
  blocks: z.enum(['on', 'off']).default('on').describe('`off` lifts all blocks.'),
  ...endFields,
  why: reason,
})

export const entryRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/overrides',
    role: 'operate',
    summary: 'The live overrides',
    response: overridesResponse,
    query: ['from'],
    handle: (call) => list(call, OVERRIDES_PREFIX, 'overrides'),
  }),
  route({
    method: 'PUT',
    path: '/v1/overrides',
    role: 'operate',
    action: 'override.set',
    summary: 'Set other numbers of a limit for one key',
    response: overrideChange,
    body: overrideBody,
    handle: setOverride,
  }),
  route({
    method: 'POST',
    path: '/v1/overrides/remove',
    role: 'operate',
    action: 'override.remove',
    summary: 'Remove an override',
    response: removal,
    body: overrideRemoval,
    async handle(call) {
      const { limit, key, why } = call.body
      const target = { type: 'override', limit, keyHash: digestOf(call.context, key) }
      return removeEntry(call, {
        key: overrideKey(limit, key),
        action: 'override.remove',
        target,
        why,
      })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/blocks',
    role: 'operate',
    summary: 'The live blocks',
    response: blocksResponse,
    query: ['from'],
    handle: (call) => list(call, BLOCKS_PREFIX, 'blocks'),
  }),
  route({
    method: 'PUT',
    path: '/v1/blocks',
    role: 'operate',
    action: 'block.set',
    summary: 'Block a client',
    response: blockChange,
    body: blockBody,
    handle: setBlock,
  }),
  route({
    method: 'POST',
    path: '/v1/blocks/remove',
    role: 'operate',
    action: 'block.remove',
    summary: 'Remove a block',
    response: removal,
    body: blockRemoval,
    async handle(call) {
      const { why } = call.body
      const target = targetOf(call.body)
      const key = blockKey(target)
      const audited = auditedBlock(call.context, target)
      return removeEntry(call, { key, action: 'block.remove', target: audited, why })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/switch',
    role: 'read',
    summary: 'The switch for all limits and blocks',
    response: switchResponse,
    async handle({ context }) {
      const { entries } = await context.control.range(SWITCH_KEY)
      const value = entries.find(({ key }) => key === SWITCH_KEY)?.value
      const on = { limits: 'on', blocks: 'on' }
      return ok({ switch: switchOf(value) ?? on, ...scopeOf(context) })
    },
  }),
  route({
    method: 'PUT',
    path: '/v1/switch',
    role: 'operate',
    action: 'switch.set',
    summary: 'Set the switch; only admins may turn limits or blocks off',
    response: switchChange,
    body: switchBody,
    handle: setSwitch,
  }),
]

async function setOverride(call: Call<z.output<typeof overrideBody>>) {
  const { limit, key, set, why } = call.body
  checkOverride(call.context, limit, key, set)
  const path = overrideKey(limit, key)
  const value: StoredOverride = {
    limit,
    key,
    set: set as StoredOverride['set'],
    ...originOf(call, why, call.body),
  }
  await checkRoom(call.context, path, OVERRIDES_MAX)
  const target = { type: 'override', limit, keyHash: digestOf(call.context, key) }
  return changeEntry(call, { key: path, value, action: 'override.set', target, why })
}

/** Throws if the override could not hold on this node. */
function checkOverride(context: AdminContext, name: string, key: readonly string[], set: unknown) {
  const change = limitChange.safeParse(set)
  const problem = context.limits().overrideProblem(name, key, change.data ?? {})
  if (problem !== undefined) throw new ApiError(422, problem)
  if (change.success) return
  const place = ['set', ...(change.error.issues[0]?.path ?? [])].join('.')
  const allowed = change.error.issues[0]?.message ?? 'limit, per, burst or ttl'
  throw new ApiError(422, `${place}: is not allowed; allowed: ${allowed}`)
}

async function setBlock(call: Call<z.output<typeof blockBody>>) {
  const { answer, why } = call.body
  const target = targetOf(call.body)
  if (target.kind === 'key') checkBlockedKey(call.context, target)
  const path = blockKey(target)
  const value: StoredBlock = { ...target, answer, ...originOf(call, why, call.body) }
  await checkRoom(call.context, path, BLOCKS_MAX)
  const audited = auditedBlock(call.context, target)
  return changeEntry(call, { key: path, value, action: 'block.set', target: audited, why })
}

function checkBlockedKey(context: AdminContext, { limit = '', key = [] }: BlockTarget): void {
  const problem = context.limits().keyProblem(limit, key)
  if (problem !== undefined) throw new ApiError(422, problem)
}

/** Throws if the fields do not fit the kind. */
function targetOf({ kind, value, limit, key }: BlockTarget): BlockTarget {
  const target = { kind, value, limit, key }
  const problem = blockProblem(target)
  if (problem !== undefined) throw new ApiError(422, problem)
  return target
}

async function setSwitch(call: Call<z.output<typeof switchBody>>) {
  const { limits, blocks, why } = call.body
  if ((limits === 'off' || blocks === 'off') && call.caller.role !== 'admin') {
    throw new ApiError(403, 'Turning limits or blocks off needs the role admin; shadow does not.')
  }
  const value: StoredSwitch = {
    limits,
    blocks,
    ...originOf(call, why, call.body, SWITCH_MS_DEFAULT),
  }
  const target = { type: 'switch' }
  return changeEntry(call, { key: SWITCH_KEY, value, action: 'switch.set', target, why })
}

function originOf(call: Call<unknown>, why: string, end: End, defaultMs?: number) {
  const expires = expiryOf(end, call.caller.role, Date.now(), defaultMs)
  return { by: call.caller.name, at: new Date().toISOString(), why, expires }
}

function auditedBlock(context: AdminContext, target: BlockTarget) {
  const { kind, limit, key = [canonicalValue(target)] } = target
  const keyHash = digestOf(context, key)
  return { type: 'block', id: kind, ...(limit === undefined ? undefined : { limit }), keyHash }
}

/** A key of one part has the digest that it has in the logs. */
function digestOf({ digest }: AdminContext, key: readonly string[]): string {
  const [only = ''] = key
  return digest(key.length === 1 ? only : JSON.stringify(key))
}

/** By the entries that this node has read. A node leaves out the oldest beyond the maximum. */
async function checkRoom({ hasRoom }: AdminContext, path: string, countMax: number) {
  if (await hasRoom(path)) return
  throw new ApiError(409, `There are ${countMax} entries; allowed: ${countMax}. Remove some first.`)
}

/** Entries of one response: at most 2 MB. */
const LIST_MAX = ENTRY_BYTES_MAX / 8

async function list({ context, request }: Call<undefined>, prefix: string, field: string) {
  const from = request.query.get('from') ?? undefined
  const options = { entriesMax: LIST_MAX + 1, ...(from === undefined ? undefined : { from }) }
  const { entries } = await context.control.range(prefix, options)
  const nowMs = Date.now()
  const shown = entries.slice(0, LIST_MAX).flatMap(({ key, value }) => {
    const entry = entryOf(value) as { readonly expires: string | null } | undefined
    // The status of the node lists it as a problem.
    if (entry === undefined) return []
    const isExpired = entry.expires !== null && Date.parse(entry.expires) <= nowMs
    return [{ id: key.slice('live/'.length), ...entry, isExpired }]
  })
  const next = entries[LIST_MAX]?.key
  return ok({ [field]: shown, next: next ?? null, ...scopeOf(context) })
}
