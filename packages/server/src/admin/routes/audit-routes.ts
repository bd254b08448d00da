/** Audit records: pages, an export in lines, and a check of their chain. */

import { type AuditResult, auditResults } from '../../control/audit/audit-record.ts'
import { type AuditFilter, latestRecords, verifyAudit } from '../../control/audit/read-audit.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { auditResponse, auditVerdict } from '../responses/access-responses.ts'
import { type Call, ok, type Route, route } from '../route.ts'

const PAGE_DEFAULT = 100
const PAGE_MAX = 1_000

/** An export is kept in memory until it is sent: at most some 10 MB. */
const EXPORT_MAX = 10_000

const EXPORT_TYPE = 'application/x-ndjson'

const filterFields = ['actor', 'action', 'target', 'result', 'since', 'until'] as const

export const auditRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/audit',
    role: 'read',
    summary: 'Audit records, the latest first',
    response: auditResponse,
    query: [...filterFields, 'before', 'count'],
    async handle(call) {
      const count = numberOf(call, 'count', PAGE_MAX) ?? PAGE_DEFAULT
      const records = await recordsOf(call, count)
      return ok({ records, next: records.length < count ? null : (records.at(-1)?.id ?? null) })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/audit/export',
    role: 'read',
    summary: 'Audit records as NDJSON, the latest first',
    query: [...filterFields, 'before'],
    type: EXPORT_TYPE,
    async handle(call) {
      const records = await recordsOf(call, EXPORT_MAX)
      const lines = records.map((record) => JSON.stringify(record))
      return { status: 200, type: EXPORT_TYPE, body: lines[Symbol.iterator]() }
    },
  }),
  route({
    method: 'GET',
    path: '/v1/audit/verify',
    role: 'read',
    summary: 'Whether the chain of audit records is whole',
    response: auditVerdict,
    handle: async ({ context }) => ok(await verifyAudit(context.control)),
  }),
]

async function recordsOf(call: Call<undefined>, countMax: number) {
  const before = numberOf(call, 'before', Number.MAX_SAFE_INTEGER)
  const found = []
  for await (const record of latestRecords(call.context.control, filterOf(call), before)) {
    found.push(record)
    if (found.length >= countMax) break
  }
  return found
}

function filterOf(call: Call<undefined>): AuditFilter {
  const { query } = call.request
  const text = (field: string) => query.get(field) ?? undefined
  const result = text('result')
  if (result !== undefined && !auditResults.some((one) => one === result)) {
    throw new ApiError(400, `result: is not allowed; allowed: ${auditResults.join(', ')}`)
  }
  return {
    actor: text('actor'),
    action: text('action'),
    target: text('target'),
    result: result as AuditResult | undefined,
    since: timeOf(call, 'since'),
    until: timeOf(call, 'until'),
  }
}

function timeOf({ request }: Call<undefined>, field: string): number | undefined {
  const text = request.query.get(field)
  if (text === null) return undefined
  const timeMs = Date.parse(text)
  if (Number.isFinite(timeMs)) return timeMs
  throw new ApiError(400, `${field}: allowed is a time such as 2026-12-01T00:00:00Z`)
}

function numberOf({ request }: Call<undefined>, field: string, max: number): number | undefined {
  const text = request.query.get(field)
  if (text === null) return undefined
  const number = Number(text)
  if (Number.isSafeInteger(number) && number >= 1 && number <= max) return number
  throw new ApiError(400, `${field}: allowed is a whole number from 1 to ${max}`)
}
