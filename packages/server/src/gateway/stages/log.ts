/**
 * Logs decisions: all refusals and degraded decisions, and a share of the others. It wraps all
 * other stages, so it sees every response.
 *
 * Lines carry no keys, tokens, addresses or header values, only digests. The only text of clients
 * is method and path, which JSON escapes. A flood of refusals writes a bounded number of lines, and
 * one line with the number of those left out.
 */

import type { Logger } from 'pino'
import type { AppliedLimit, Decision, Degraded, Evaluation } from 'tidegate'
import { windowSeconds } from 'tidegate/http'
import type { Outcome, RequestOutcome } from '../../limits/outcome.ts'
import { digest, type LineBudget } from '../../observability/line-budget.ts'
import type { LogSection } from '../../policy/schema/log-section.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import { type Stage, whenDone } from '../pipeline.ts'
import { type IncompleteResponse, onIncomplete, upstreamMs } from '../upstreams/upstream-context.ts'
import { limitOutcome, storeMs } from './rate-limit.ts'
import { foundRoute } from './route.ts'
import { refusedPriority } from './shed.ts'

export interface LogOptions extends Pick<LogSection, 'sampleAllowed'> {
  readonly logger: Logger
  readonly lines: LineBudget
  readonly nodeId: string
  readonly region: string | undefined
}

const ENDPOINT_LENGTH_MAX = 256

const outcomes: Readonly<Record<Outcome, string>> = {
  admitted: 'allowed',
  denied: 'denied',
  unavailable: 'unavailable',
  'missing-key': 'unauthenticated',
  blocked: 'blocked',
}

export function log(options: LogOptions): Stage {
  const { logger, lines, sampleAllowed } = options
  const write = (request: GatewayRequest, response: GatewayResponse) => {
    const verdict = request.context.get(limitOutcome)
    if (verdict === undefined || (response.problem !== undefined && isPlain(verdict))) {
      const level = response.status >= 500 ? 'warn' : 'info'
      if (response.problem === undefined || !logger.isLevelEnabled(level)) return response
      if (lines.mayWrite()) logger[level](refusalLine(request, response, options))
      return response
    }
    const isOfInterest = !isPlain(verdict)
    const level = isOfInterest && verdict.outcome === 'admitted' ? 'warn' : 'info'
    if (!logger.isLevelEnabled(level)) return response
    if (isOfInterest ? lines.mayWrite() : sampleAllowed > 0 && Math.random() < sampleAllowed) {
      logger[level](decisionLine(request, verdict, options))
    }
    return response
  }
  const writeIncomplete = (request: GatewayRequest, response: IncompleteResponse) => {
    if (!logger.isLevelEnabled('warn') || !lines.mayWrite()) return
    logger.warn(incompleteLine(request, response, options))
  }
  return (request, next) => {
    request.context.set(onIncomplete, writeIncomplete)
    return whenDone(next(request), (response) => write(request, response))
  }
}

/** Admitted by a store that responded, and by all limits in shadow mode. */
function isPlain({ outcome, evaluation, shadowed }: RequestOutcome): boolean {
  if (outcome !== 'admitted') return false
  const degraded = evaluation?.decision.degraded ?? null
  if (degraded !== null && degraded.reason !== 'disabled') return false
  return shadowed.every(({ decision }) => decision.allowed)
}

function decisionLine(request: GatewayRequest, verdict: RequestOutcome, options: LogOptions) {
  const { evaluation, outcome, refusedBy, shadowed } = verdict
  const shadowDenied = shadowed.filter(({ decision }) => !decision.allowed)
  return {
    event: 'ratelimit.decision',
    ...callerOf(request),
    outcome: outcomes[outcome],
    reason: refusedBy ?? evaluation?.decision.degraded?.reason ?? null,
    ...(evaluation !== undefined && figuresOf(evaluation, refusedBy)),
    ...(shadowDenied.length > 0 && { shadow_denied: shadowDenied.map(({ name }) => name) }),
    store_ms: rounded(request.context.get(storeMs)),
    ...timeOf(request),
    ...placeOf(options),
  }
}

function refusalLine(request: GatewayRequest, response: GatewayResponse, options: LogOptions) {
  const priority = request.context.get(refusedPriority)
  return {
    event: 'gateway.refused',
    ...callerOf(request),
    status: response.status,
    reason: response.problem,
    ...(priority !== undefined && { priority }),
    ...upstreamOf(request),
    ...timeOf(request),
    ...placeOf(options),
  }
}

/** A response that broke off: the client has its status, but not all of its body. */
function incompleteLine(
  request: GatewayRequest,
  response: IncompleteResponse,
  options: LogOptions,
) {
  return {
    event: 'gateway.cut_off',
    ...callerOf(request),
    ...upstreamOf(request),
    ...response,
    ...timeOf(request),
    ...placeOf(options),
  }
}

function upstreamOf({ context }: GatewayRequest) {
  const route = context.get(foundRoute)
  return route === undefined ? undefined : { upstream: route.upstream.name }
}

function timeOf({ context }: GatewayRequest) {
  const ms = context.get(upstreamMs)
  return ms === undefined ? undefined : { upstream_ms: rounded(ms) }
}

/** To a microsecond. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}

function callerOf(request: GatewayRequest) {
  const { identity } = request
  const client = identity.organisation ?? identity.apiKey ?? identity.user ?? request.ip
  return {
    trace_id: traceId(request.header('traceparent')),
    client_id: client === undefined ? null : digest(client),
    api_key_hash: identity.apiKey === undefined ? null : digest(identity.apiKey),
    // Bytes that did not parse as a request have no endpoint.
    endpoint:
      request.method === ''
        ? null
        : `${request.method} ${request.path}`.slice(0, ENDPOINT_LENGTH_MAX),
  }
}

function figuresOf(evaluation: Evaluation<Decision>, refusedBy: string | undefined) {
  const { decision, applied } = evaluation
  const deciding = applied.find(({ name }) => name === refusedBy) ?? tightest(applied)
  const { limit, remaining, resetAfterMs, degraded } = deciding?.decision ?? decision
  const resetAt = new Date(Date.now() + (Number.isFinite(resetAfterMs) ? resetAfterMs : 0))
  return {
    limit_name: deciding?.name ?? null,
    ...(isCounted(degraded) && { counter: limit - remaining }),
    limit,
    window_sec: deciding === undefined ? null : (windowSeconds(deciding.limit) ?? null),
    ...(isCounted(degraded) && { reset_at: resetAt.toISOString() }),
    fallback: degraded !== null,
  }
}

/** True if a counter was charged: that of the store, or the local share of this process. */
function isCounted(degraded: Degraded | null): boolean {
  return degraded === null || degraded.mode === 'local' || degraded.reason === 'unconfirmed'
}

function tightest(applied: readonly AppliedLimit[]): AppliedLimit | undefined {
  let found: AppliedLimit | undefined
  for (const one of applied) {
    if (found === undefined || one.decision.remaining < found.decision.remaining) found = one
  }
  return found
}

function placeOf({ region, nodeId }: LogOptions) {
  return { region: region ?? null, node_id: nodeId }
}

/** https://www.w3.org/TR/trace-context/#traceparent-header */
function traceId(traceparent: string | undefined): string | null {
  return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent ?? '')?.[1] ?? null
}
