/** The keys that ask most and are refused most. Without the role `operate`, digests of them. */

import { isAtLeast } from '../../control/roles.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { topResponse } from '../responses/entry-responses.ts'
import { ok, type Route, route } from '../route.ts'

const COUNT_DEFAULT = 20
const COUNT_MAX = 100

/** The role from which keys are shown; lists with keys have a record in the audit. */
const KEYS_ROLE = 'operate'

export const topRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/top',
    role: 'read',
    summary: 'The keys that ask most, or are refused most, by limit',
    response: topResponse,
    query: ['by', 'limit', 'count'],
    async handle({ request: { query }, caller, context, author }) {
      const { top } = context
      if (top === undefined) throw new ApiError(404, 'Keys are not counted.')
      const by = query.get('by') ?? 'refused'
      if (by !== 'asked' && by !== 'refused') {
        throw new ApiError(422, `by: ${JSON.stringify(by)} is not allowed; allowed: asked, refused`)
      }
      const limit = query.get('limit') ?? undefined
      const isRaw = isAtLeast(caller.role, KEYS_ROLE)
      const { sinceMs, total, keys } = top(by, limit, countOf(query.get('count')), isRaw)
      if (isRaw) {
        const target = { type: 'top', ...(limit !== undefined && { limit }) }
        await context.changes.note({ ...author, action: 'top.read', target, result: 'done' })
      }
      return ok({
        by,
        since: new Date(sinceMs).toISOString(),
        total,
        keys,
        note: 'this process only',
      })
    },
  }),
]

function countOf(text: string | null): number {
  const count = Number(text ?? COUNT_DEFAULT)
  if (Number.isSafeInteger(count) && count >= 1 && count <= COUNT_MAX) return count
  const allowed = `a whole number from 1 to ${COUNT_MAX}`
  throw new ApiError(422, `count: ${JSON.stringify(text)} is not allowed; allowed: ${allowed}`)
}
