/**
 * One line for every decision that somebody may ask about: refusals and degraded decisions always,
 * a share of the others. It stands around all other stages, and so sees every answer.
 *
 * Lines carry no keys, tokens, addresses or header values, only digests; text of clients is their
 * method and path, which JSON escapes. A flood of refusals writes a bounded number of lines, and
 * then one that says how many were left out.
 */

import type { Logger } from 'pino'
import type { AppliedLimit, Decision, Evaluation } from 'tidegate'
import { windowSeconds } from 'tidegate/http'
import type { LogSection } from '../../policy/gateway-section.ts'
import type { Outcome, Verdict } from '../../policy/verdict.ts'
import { digest, type LineBudget } from '../line-budget.ts'
import { type GatewayRequest, type GatewayResponse, type Stage, whenDone } from '../message.ts'

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
  keyless: 'unauthenticated',
}

export function log(options: LogOptions): Stage {
  const { logger, lines, sampleAllowed } = options
  const look = (request: GatewayRequest, response: GatewayResponse) => {
    const { verdict } = request
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
  return (request, next) => whenDone(next(request), (response) => look(request, response))
}

/** Admitted by a store that answered, and by all limits in shadow mode. */
function isPlain({ outcome, evaluation, shadowed }: Verdict): boolean {
  if (outcome !== 'admitted') return false
  const degraded = evaluation?.decision.degraded ?? null
  if (degraded !== null && degraded.reason !== 'disabled') return false
  return shadowed.every(({ decision }) => decision.allowed)
}

function decisionLine(request: GatewayRequest, verdict: Verdict, options: LogOptions) {
  const { evaluation, outcome, refusedBy, shadowed } = verdict
  const shadowDenied = shadowed.filter(({ decision }) => !decision.allowed)
  return {
    event: 'ratelimit.decision',
    ...callerOf(request),
    outcome: outcomes[outcome],
    reason: refusedBy ?? evaluation?.decision.degraded?.reason ?? null,
    ...(evaluation !== undefined && figuresOf(evaluation, refusedBy)),
    ...(shadowDenied.length > 0 && { shadow_denied: shadowDenied.map(({ name }) => name) }),
    backend_ms: Math.round(request.judgedMs * 1000) / 1000,
    ...placeOf(options),
  }
}

function refusalLine(request: GatewayRequest, response: GatewayResponse, options: LogOptions) {
  return {
    event: 'gateway.refused',
    ...callerOf(request),
    status: response.status,
    reason: response.problem,
    ...(request.priority !== undefined && { priority: request.priority }),
    ...(request.route !== undefined && { upstream: request.route.upstream.name }),
    ...placeOf(options),
  }
}

function callerOf(request: GatewayRequest) {
  const { identity } = request
  const client = identity.organisation ?? identity.apiKey ?? identity.user ?? request.ip
  return {
    trace_id: traceId(request.header('traceparent')),
    client_id: client === undefined ? null : digest(client),
    api_key_hash: identity.apiKey === undefined ? null : digest(identity.apiKey),
    // Of what was no request, nothing is known.
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
    counter: limit - remaining,
    limit,
    window_sec: deciding === undefined ? null : (windowSeconds(deciding.limit) ?? null),
    reset_at: resetAt.toISOString(),
    fallback: degraded !== null,
  }
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
