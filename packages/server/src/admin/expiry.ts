/** The end of an entry: after a time, at a time, or never, which has to be written out. */

import { z } from 'zod'
import type { Role } from '../control/roles.ts'
import { ApiError } from '../http-api/api-error.ts'
import { duration } from '../policy/schema/field-types.ts'

/** Operators correct what is urgent; a longer change is a decision for admins. */
const OPERATE_MS_MAX = 24 * 3_600_000

export const endFields = {
  for: duration.optional().describe('How long it holds, such as 7d.'),
  expires: z.iso
    .datetime({ offset: true, error: 'a time such as 2026-12-01T00:00:00Z' })
    .optional()
    .describe('When it ends, instead of `for`.'),
  forever: z.literal(true).optional().describe('It has no end, instead of `for`.'),
}

export interface End {
  readonly for?: number | undefined
  readonly expires?: string | undefined
  readonly forever?: true | undefined
}

/** Returns an ISO time, or null for no end. Throws without exactly one end in the future. */
export function expiryOf(end: End, role: Role, nowMs: number, defaultMs?: number): string | null {
  const given = [end.for, end.expires, end.forever].filter((one) => one !== undefined)
  if (given.length > 1 || (given.length === 0 && defaultMs === undefined)) {
    throw new ApiError(422, 'for, expires, forever: exactly one of them is needed')
  }
  if (end.forever) {
    if (role === 'admin') return null
    throw new ApiError(403, 'forever: a change without an end needs the role admin')
  }
  const endMs =
    end.expires === undefined ? nowMs + (end.for ?? defaultMs ?? 0) : Date.parse(end.expires)
  if (endMs <= nowMs) throw new ApiError(422, 'expires: the time has passed')
  if (role !== 'admin' && endMs - nowMs > OPERATE_MS_MAX) {
    throw new ApiError(403, 'for, expires: more than 24 hours need the role admin')
  }
  return new Date(endMs).toISOString()
}
