/** Responses about the audit, sessions and tokens. */

import { z } from 'zod'
import { actorKinds, auditResults } from '../../control/audit/audit-record.ts'
import { roles } from '../../control/roles.ts'
import { isoTime, scopeFields } from './common.ts'

const fields = z.record(z.string(), z.unknown())

export const auditRecord = z.strictObject({
  id: z.int().min(1),
  at: isoTime,
  actor: z.strictObject({
    kind: z.enum(actorKinds),
    id: z.string(),
    name: z.string(),
    role: z.string(),
  }),
  ip: z.string().optional(),
  action: z.string(),
  target: z.strictObject({
    type: z.string(),
    id: z.string().optional(),
    limit: z.string().optional(),
    keyHash: z.string().optional(),
  }),
  before: fields.optional().describe('Changed fields only.'),
  after: fields.optional(),
  reason: z.string().optional(),
  result: z.enum(auditResults),
  versionFrom: z.int().optional(),
  versionTo: z.int().optional(),
  requestId: z.string().optional(),
  leftOut: z.int().optional(),
  prev: z.string().describe('The hash of the record before.'),
})

export const auditResponse = z.strictObject({
  records: z.array(auditRecord),
  next: z.int().nullable().describe('The next page, as the field `before` of the query.'),
})

export const auditVerdict = z.union([
  z.strictObject({ ok: z.literal(true), records: z.int(), first: z.int(), last: z.int() }),
  z.strictObject({ ok: z.literal(false), at: z.int(), problem: z.string() }),
])

const role = z.enum(roles)

export const sessionOpened = z.strictObject({ name: z.string(), role })

export const sessionResponse = z.strictObject({
  kind: z.enum(actorKinds),
  name: z.string(),
  role,
})

export const sessionEnded = z.strictObject({ ended: z.literal(true) })

const token = z.strictObject({
  id: z.string(),
  name: z.string(),
  role,
  by: z.string(),
  at: isoTime,
  expires: isoTime.nullable(),
})

export const tokensResponse = z.strictObject({
  tokens: z.array(token.extend({ lastUsed: isoTime.nullable() })),
  ...scopeFields,
})

export const tokenCreated = token.extend({
  token: z.string().describe('The token, which is shown once.'),
  ...scopeFields,
})
