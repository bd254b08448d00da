/**
 * Parses the body of a request into checks. Problems have the form of those of a policy: the place,
 * the value and the allowed values, with a bounded part of the body.
 */

import { z } from 'zod'
import { type PolicyPath, pathText } from '../policy/problems/policy-problem.ts'
import { schemaIssues } from '../policy/problems/schema-issues.ts'
import type { SchemaNode } from '../policy/schema/json-schema.ts'
import { type Check, checkByNames, checkByRequest } from './check-schema.ts'

export interface Checks {
  readonly checks: readonly Check[]
  readonly isBatch: boolean
}

/** More would hide the first, which is often the cause of the others. */
const ISSUES_MAX = 5

const SHAPES = 'a mapping with one of request, limits and checks'

/** Returns the checks, or the problems in one line. */
export function readChecks(text: string, batchMax: number): Checks | string {
  const value = parseJson(text)
  if (value === undefined) return 'The body is not JSON.'
  if (!isMapping(value)) return `body: is not allowed; allowed: ${SHAPES}`
  if (!('checks' in value)) {
    const check = readCheck(value, [])
    return typeof check === 'string' ? check : { checks: [check], isBatch: false }
  }
  const batch = z.strictObject({ checks: z.array(z.unknown()).min(1).max(batchMax) })
  const parsed = batch.safeParse(value)
  if (!parsed.success) return problemsOf(parsed.error, value, batch, [])
  const checks: Check[] = []
  for (const [at, one] of parsed.data.checks.entries()) {
    const check = readCheck(one, ['checks', at])
    if (typeof check === 'string') return check
    checks.push(check)
  }
  return { checks, isBatch: true }
}

function readCheck(value: unknown, place: PolicyPath): Check | string {
  const isByRequest = isMapping(value) && 'request' in value
  const isByNames = isMapping(value) && 'limits' in value
  if (isByRequest === isByNames) {
    const allowed = place.length === 0 ? SHAPES : 'a mapping with either request or limits'
    return `${pathText(place) || 'body'}: is not allowed; allowed: ${allowed}`
  }
  const schema = isByRequest ? checkByRequest : checkByNames
  const parsed = schema.safeParse(value)
  return parsed.success ? parsed.data : problemsOf(parsed.error, value, schema, place)
}

function problemsOf(
  error: z.ZodError,
  value: unknown,
  schema: z.ZodType,
  place: PolicyPath,
): string {
  const fields = () => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as SchemaNode
  const issues = schemaIssues(error.issues, value, fields).slice(0, ISSUES_MAX)
  return issues
    .map(({ path, text }) => `${pathText([...place, ...path]) || 'body'}: ${text}`)
    .join('; ')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isMapping(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
