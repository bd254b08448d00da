/**
 * The decision API: `POST /v1/check` decides about a request that another program received, by the
 * limits of the policy. It has its own listener and token. A denial is a response with 200.
 */

import { ipKey, parseIp } from 'tidegate/http'
import { ApiError, problemResponse } from '../http-api/api-error.ts'
import { bearerCheck } from '../http-api/bearer-token.ts'
import { listen, type RunningListener } from '../http-api/listener.ts'
import { type ApiRequest, type ApiResponse, jsonResponse } from '../http-api/messages.ts'
import { router } from '../http-api/router.ts'
import type { FailedAttempts } from '../limits/failed-attempts.ts'
import type { Priority } from '../limits/priority.ts'
import { parseTracestate } from '../observability/trace-context.ts'
import type { TracedRequest, Tracing } from '../observability/tracing/tracing.ts'
import type { Overload } from '../overload/overload.ts'
import { retryAfterSeconds } from '../overload/retry-after.ts'
import type { Check, CheckResult } from './check-schema.ts'
import { openApiDocument } from './openapi.ts'
import { readChecks } from './read-checks.ts'

export interface DecisionApiOptions {
  readonly host: string
  readonly port: number
  readonly token: string
  readonly batchMax: number
  readonly bodyBytesMax: number
  /** The version of the program, for the document. */
  readonly version: string
  /** Counts wrong tokens by the address of the client. */
  readonly failures: FailedAttempts
  /** Bits of an IPv6 address that distinguish clients. */
  readonly ipv6Prefix: number
  /** The controller of this process. */
  readonly overload: Overload
  /** Returns the highest priority that a check can have. */
  priorityMax(): Priority
  priorityOf(checks: readonly Check[]): Priority
  /** Throws if the check is invalid. Charges nothing until the returned function is called. */
  evaluate(
    check: Check,
    request: ApiRequest,
    span: TracedRequest | undefined,
  ): () => Promise<CheckResult>
  /** Called for an error that no part should have thrown; the caller gets 500. */
  onError(error: unknown): void
  /** Without it, no request is traced. */
  readonly tracing?: Tracing | undefined
}

export function startDecisionApi(options: DecisionApiOptions): Promise<RunningListener> {
  const { token, version, batchMax } = options
  const isAuthorised = bearerCheck(token)
  const document = JSON.stringify(openApiDocument(version, batchMax))
  const handler = router({
    publicRoutes: {
      '/health': { GET: () => jsonResponse(200, '{"status":"ok"}') },
      '/openapi.json': { GET: () => jsonResponse(200, document) },
    },
    routes: { '/v1/check': { POST: (request) => checkTraced(request, options) } },
    guard: async (request, next) => {
      const { overload } = options
      // The priority of a check is known once its body is read; until then, the highest counts.
      if (!overload.isCalm && !overload.admits(options.priorityMax())) throw overloaded()
      overload.enter()
      try {
        authorise(request, options, isAuthorised)
        return await next()
      } finally {
        overload.leave()
      }
    },
    failed: (error) => {
      if (!(error instanceof ApiError)) options.onError(error)
      return problemResponse(error)
    },
  })
  return listen(handler, options)
}

/** A caller has a token, so it may decide that a request is sampled. */
async function checkTraced(request: ApiRequest, options: DecisionApiOptions): Promise<ApiResponse> {
  const { traceparent, tracestate } = request.headers
  const begun = options.tracing?.begin(oneOf(traceparent), true)
  if (!begun?.isSampled || options.tracing === undefined) return check(request, options, undefined)
  const state = oneOf(tracestate)
  const span = options.tracing.request(begun, state && parseTracestate(state), `POST ${PATH}`, {
    'http.request.method': 'POST',
    'url.path': PATH,
    'url.scheme': 'http',
    'http.route': PATH,
  })
  const end = (status: number) => {
    const isError = status >= 500
    const attributes = isError ? { 'error.type': String(status) } : undefined
    span.end(undefined, { 'http.response.status_code': status, ...attributes }, isError)
  }
  try {
    const response = await check(request, options, span)
    end(response.status)
    return response
  } catch (error) {
    end(error instanceof ApiError ? error.status : 500)
    throw error
  }
}

const PATH = '/v1/check'

function oneOf(field: string | string[] | undefined): string | undefined {
  return typeof field === 'string' ? field : field?.join(',')
}

async function check(
  request: ApiRequest,
  options: DecisionApiOptions,
  span: TracedRequest | undefined,
): Promise<ApiResponse> {
  const { overload, bodyBytesMax, batchMax } = options
  const possible = options.priorityMax()
  const read = readChecks(await request.text(bodyBytesMax), batchMax)
  if (typeof read === 'string') throw new ApiError(400, read)
  const { checks, isBatch } = read
  if (!overload.isCalm) {
    const priority = options.priorityOf(checks)
    if (priority !== possible && !overload.admits(priority)) throw overloaded()
  }
  const evaluations = checks.map((one, at) =>
    prepared(isBatch ? `checks[${at}].` : '', () => options.evaluate(one, request, span)),
  )
  const results = await Promise.all(evaluations.map((evaluate) => evaluate()))
  return jsonResponse(200, JSON.stringify(isBatch ? { results } : results[0]))
}

function overloaded(): ApiError {
  const headers = { 'Retry-After': String(retryAfterSeconds()) }
  return new ApiError(503, 'The decision API is overloaded.', headers)
}

/** Throws if the token is missing or wrong. Wrong ones are charged to the address. */
function authorise(
  { headers: { authorization }, remoteAddress }: ApiRequest,
  { failures, ipv6Prefix }: DecisionApiOptions,
  isAuthorised: (header: string | undefined) => boolean,
): void {
  const client = clientOf(remoteAddress, ipv6Prefix)
  const refused = authorization === undefined ? undefined : failures.refusalOf(client)
  if (refused !== undefined) {
    const retryAfterS = Math.ceil(refused.decision.retryAfterMs / 1_000)
    const headers = { 'Retry-After': String(retryAfterS) }
    throw new ApiError(429, 'This address has sent too many wrong tokens.', headers)
  }
  if (isAuthorised(authorization)) return
  if (authorization !== undefined) failures.note(client)
  const text = 'Send the token of the decision API as Authorization: Bearer.'
  throw new ApiError(401, text, { 'WWW-Authenticate': 'Bearer' })
}

function clientOf(address: string | undefined, ipv6Prefix: number): string {
  const ip = parseIp(address ?? '')
  return ip === undefined ? 'unknown' : ipKey(ip, ipv6Prefix)
}

function prepared<T>(place: string, evaluate: () => T): T {
  try {
    return evaluate()
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    throw new ApiError(error.status, `${place}${error.message}`)
  }
}
