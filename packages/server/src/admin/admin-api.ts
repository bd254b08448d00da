/**
 * The admin API: `/v1/…`, made from the route table. One guard checks host, caller and role of
 * every request before its handler runs, also for paths that do not exist.
 */

import type { RequestListener } from 'node:http'
import { z } from 'zod'
import type { AuditEntry, AuditResult } from '../control/audit/audit-record.ts'
import { ChangeConflict } from '../control/audit/audited-change.ts'
import { CappedRecords } from '../control/audit/capped-records.ts'
import { ControlError, type ControlErrorCode } from '../control/control-error.ts'
import { isAtLeast, type Role } from '../control/roles.ts'
import { ApiError, problemResponse } from '../http-api/api-error.ts'
import { type ApiRequest, type ApiResponse, jsonResponse } from '../http-api/messages.ts'
import { type Methods, router } from '../http-api/router.ts'
import { pathText } from '../policy/problems/policy-problem.ts'
import { schemaIssues } from '../policy/problems/schema-issues.ts'
import type { SchemaNode } from '../policy/schema/json-schema.ts'
import { Authentication } from './access/authenticate.ts'
import { type Caller, unknownActor } from './access/caller.ts'
import { checkContentType, checkHost } from './access/same-origin.ts'
import { consoleFiles } from './console/console-files.ts'
import { adminOpenApi } from './openapi.ts'
import type { AdminContext, Route } from './route.ts'
import { routeTable } from './route-table.ts'

export interface AdminAccess {
  /** The token of the policy, which has the role `admin`. */
  readonly bootstrapToken: string | undefined
  /** Roles by a name in the client's certificate. */
  readonly certificateRoles: Readonly<Record<string, Role>>
  /** Names of the listener beside addresses and `localhost`. */
  readonly hosts: readonly string[]
}

export interface AdminApiOptions {
  readonly context: AdminContext
  readonly access: AdminAccess
  /** Routes without a credential, such as `/health`. */
  readonly publicRoutes: Readonly<Record<string, Methods>>
  onError(error: unknown): void
}

/** The policy is the largest body. */
const BODY_BYTES_MAX = 512 * 1_024

/** More would hide the first, which is often the cause of the others. */
const ISSUES_MAX = 5

export function adminApi(options: AdminApiOptions): RequestListener {
  const { context, access, publicRoutes, onError } = options
  const { tokens, sessions } = context
  const failures = new CappedRecords(context.changes, onError)
  const authentication = new Authentication({
    tokens,
    sessions,
    ...access,
    onFailure: ({ remoteAddress: ip }) =>
      failures.note({
        actor: unknownActor,
        ip,
        action: 'login',
        target: { type: 'session' },
        result: 'denied',
      }),
  })
  const callers = new WeakMap<object, Caller>()
  // Apart from failed log-ins, so that a flood of those hides no attempt of an operator.
  const refusals = new CappedRecords(context.changes, onError)
  const handle = async (route: Route, request: ApiRequest): Promise<ApiResponse> => {
    const caller = callers.get(request.headers)
    if (caller === undefined) throw new ApiError(401, 'There is no credential.')
    const { requestId } = request
    const author = { actor: caller, ip: request.remoteAddress, requestId }
    try {
      checkRole(caller, route)
      const body = await bodyOf(route, request)
      return await route.handle({ body, caller, request, requestId, context, author })
    } catch (error) {
      const refusal = refusalOf(
        route,
        apiErrorOf(error, () => undefined),
      )
      if (refusal !== undefined) refusals.note({ ...author, ...refusal })
      throw error
    }
  }
  const document = JSON.stringify(adminOpenApi(routeTable, context.version))
  return router({
    publicRoutes: {
      ...publicRoutes,
      ...(context.console === undefined ? undefined : consoleFiles()),
      '/openapi.json': { GET: () => jsonResponse(200, document) },
    },
    routes: methodsByPath((route) => (request) => handle(route, request)),
    async guard(request, next) {
      checkHost(request, access.hosts)
      const caller = authentication.callerOf(request)
      callers.set(request.headers, caller)
      const renewed =
        caller.kind === 'session' ? sessions.renewal(request.headers.cookie, Date.now()) : undefined
      const response = withPrivacy(await next())
      if (renewed === undefined || response.headers?.['Set-Cookie'] !== undefined) return response
      return { ...response, headers: { ...response.headers, 'Set-Cookie': renewed } }
    },
    failed: (error) => withPrivacy(problemResponse(apiErrorOf(error, onError))),
  })
}

function methodsByPath(handlerOf: (route: Route) => NonNullable<Methods['GET']>) {
  const paths: Record<string, Record<string, NonNullable<Methods['GET']>>> = {}
  for (const route of routeTable) {
    paths[route.path] = { ...paths[route.path], [route.method]: handlerOf(route) }
  }
  return paths
}

/** Responses have keys of customers, and no page may frame them. */
function withPrivacy(response: ApiResponse): ApiResponse {
  const privacy = {
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'referrer-policy': 'no-referrer',
  }
  return { ...response, headers: { ...privacy, ...response.headers } }
}

function checkRole({ role }: Caller, route: Route): void {
  if (isAtLeast(role, route.role)) return
  throw new ApiError(403, `The role ${role} is not enough; ${route.role} is needed.`)
}

/** The messages of errors stay out of the audit, because they can have keys of customers. */
function refusalOf(
  { method, path, action }: Route,
  error: unknown,
): Pick<AuditEntry, 'action' | 'target' | 'result' | 'after'> | undefined {
  if (!(error instanceof ApiError) || error.status >= 500) return undefined
  const { status } = error
  const result = resultOf[status] ?? 'refused'
  // A read that is not valid changes nothing; one that is not allowed is an attempt.
  if (action === undefined && result !== 'denied') return undefined
  const [type = 'route'] = action?.split('.') ?? []
  const target = { type: action === undefined ? 'route' : type }
  return { action: action ?? `${method} ${path}`, target, result, after: { status } }
}

const resultOf: Readonly<Record<number, AuditResult>> = {
  403: 'denied',
  409: 'conflict',
  412: 'conflict',
}

async function bodyOf({ body: schema }: Route, request: ApiRequest): Promise<unknown> {
  if (schema === undefined) return undefined
  checkContentType(request)
  const text = await request.text(BODY_BYTES_MAX)
  const value = parseJson(text)
  if (value === undefined) throw new ApiError(400, 'The body is not JSON.')
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const fields = () => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as SchemaNode
  const issues = schemaIssues(parsed.error.issues, value, fields).slice(0, ISSUES_MAX)
  const lines = issues.map(({ path, text: problem }) => `${pathText(path) || 'body'}: ${problem}`)
  throw new ApiError(422, lines.join('; '))
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const statusOf: Partial<Record<ControlErrorCode, number>> = {
  conflict: 409,
  full: 507,
  'out-of-bounds': 422,
}

/** Errors of the control store are described: only an operator can remove their cause. */
function apiErrorOf(error: unknown, onError: (error: unknown) => void): unknown {
  if (error instanceof ApiError) return error
  if (error instanceof ChangeConflict) return new ApiError(409, error.message)
  if (error instanceof ControlError) {
    return new ApiError(statusOf[error.code] ?? 503, `The control store: ${error.message}`)
  }
  onError(error)
  return error
}
