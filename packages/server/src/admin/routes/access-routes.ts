/** Sessions of browsers, and tokens. */

import { z } from 'zod'
import { actorName, reason } from '../../control/plain-text.ts'
import { roles } from '../../control/roles.ts'
import { createToken, TOKENS_MAX, tokenKey } from '../../control/tokens.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { removeEntry } from '../change-entry.ts'
import { endFields, expiryOf } from '../expiry.ts'
import {
  sessionEnded,
  sessionOpened,
  sessionResponse,
  tokenCreated,
  tokensResponse,
} from '../responses/access-responses.ts'
import { removal } from '../responses/entry-responses.ts'
import { ok, type Route, route, scopeOf } from '../route.ts'

const tokenBody = z.strictObject({
  name: actorName.describe('The person or program that uses it.'),
  role: z.enum(roles),
  ...endFields,
  why: reason,
})

const revocation = z.strictObject({
  id: z.string().regex(/^[0-9a-f]{12}$/, { error: 'the 12 digits of an id' }),
  why: reason,
})

export const accessRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/session',
    role: 'read',
    summary: 'Swap a token for the cookie of a session',
    response: sessionOpened,
    async handle({ caller, context }) {
      if (caller.kind !== 'token') throw new ApiError(403, 'A session begins with a token.')
      const session = { ...caller, kind: 'session' } as const
      const cookie = context.sessions.open(session, Date.now())
      return ok({ name: caller.name, role: caller.role }, { 'Set-Cookie': cookie })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/session',
    role: 'read',
    summary: 'The caller and its role',
    response: sessionResponse,
    handle: async ({ caller: { kind, name, role } }) => ok({ kind, name, role }),
  }),
  route({
    method: 'DELETE',
    path: '/v1/session',
    role: 'read',
    summary: 'End the session',
    response: sessionEnded,
    async handle({ request, context }) {
      const cookie = await context.sessions.close(request.headers.cookie)
      return ok({ ended: true }, { 'Set-Cookie': cookie })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/tokens',
    role: 'admin',
    summary: 'All tokens, without their secrets',
    response: tokensResponse,
    handle: async ({ context }) => ok({ tokens: context.tokens.list(), ...scopeOf(context) }),
  }),
  route({
    method: 'POST',
    path: '/v1/tokens',
    role: 'admin',
    action: 'token.create',
    summary: 'Create a token, which is shown once',
    response: tokenCreated,
    body: tokenBody,
    async handle({ body, caller, context, author }) {
      if (context.tokens.size >= TOKENS_MAX) {
        throw new ApiError(409, `There are ${TOKENS_MAX} tokens; revoke some first.`)
      }
      const { name, role, why } = body
      const expires = expiryOf(body, caller.role, Date.now())
      const { token, stored, write } = createToken({ name, role, by: caller.name, expires })
      const { hash: _, ...summary } = stored
      await context.changes.change(async () => ({
        conditions: [{ key: write.key, revision: 0n }],
        writes: [write],
        entry: {
          ...author,
          action: 'token.create',
          target: { type: 'token', id: stored.id },
          after: { name, role, expires },
          reason: why,
          result: 'done',
        },
      }))
      return ok({ token, ...summary, ...scopeOf(context) })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/tokens/revoke',
    role: 'admin',
    action: 'token.revoke',
    summary: 'Revoke a token',
    response: removal,
    body: revocation,
    handle(call) {
      const { id, why } = call.body
      const target = { type: 'token', id }
      return removeEntry(call, { key: tokenKey(id), action: 'token.revoke', target, why })
    },
  }),
]
