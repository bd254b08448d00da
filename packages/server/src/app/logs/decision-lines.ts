/** The decisions of the decision API and of the rate limit service, as lines of the log. */

import type { Decision } from 'tidegate'
import type { Check } from '../../decision-api/check-schema.ts'
import type { ApiRequest } from '../../http-api/messages.ts'
import { type DecisionEvent, isUnavailable } from '../../limits/charging/charge-plan.ts'
import type { RequestOutcome } from '../../limits/outcome.ts'
import {
  type Caller,
  type DecidedRequest,
  type DecisionLog,
  isDegraded,
} from '../../observability/decision-log.ts'
import { isRequestId } from '../../observability/request-id.ts'
import { parseTraceparent } from '../../observability/trace-context.ts'
import { descriptorFacts } from '../../rls/service/descriptor-facts.ts'
import type { CallIds, CallListener } from '../../rls/service/rate-limit-service.ts'
import type { RateLimitRequest } from '../../rls/wire/rate-limit-messages.ts'

/** Logs the outcome of a check of the decision API. */
export function logCheck(
  decisions: DecisionLog,
  outcome: RequestOutcome | 'forbidden',
  tookMs: number,
  { check, request }: { readonly check: Check; readonly request: ApiRequest },
): void {
  const caller = () => callerOfCheck(check, request)
  if (outcome !== 'forbidden') {
    decisions.decided('decision_api', outcome, caller, { backendMs: tookMs })
    return
  }
  if (!decisions.lines.mayWrite('info')) return
  const decided = { outcome, reason: 'ip_deny_list', shadowDenied: [], backendMs: tookMs } as const
  decisions.write('decision_api', caller(), decided, false)
}

function callerOfCheck(check: Check, { requestId, headers }: ApiRequest): Caller {
  const trace = parseTraceparent(String(headers.traceparent ?? ''))
  const ids = { requestId, traceId: trace?.traceId }
  if (!('request' in check)) {
    return { ...ids, client: undefined, apiKey: undefined, method: '', path: '' }
  }
  const { identity, ip, method, path } = check.request
  const { organisation, apiKey, user } = identity
  return { ...ids, client: organisation ?? apiKey ?? user ?? ip, apiKey, method, path }
}

/** Logs calls of Envoy, over gRPC and over HTTP. */
export function callLogger(decisions: DecisionLog): CallListener {
  return (outcome, events, tookMs, request, ids) => {
    const isOrdinary = outcome === 'within' && events.every(isPlainEvent)
    if (isOrdinary) {
      if (!decisions.isSampled()) return
    } else if (!decisions.lines.mayWrite(outcome === 'within' ? 'warn' : 'info')) return
    const decided = decidedCall(outcome, events, tookMs)
    decisions.write('rls', callerOfCall(request, ids), decided, isOrdinary)
  }
}

function isPlainEvent({ decision, outcome }: DecisionEvent): boolean {
  if (outcome === 'denied' || outcome === 'unavailable') return false
  return !isDegraded(decision)
}

const callOutcomes = { within: 'allowed', over: 'denied', 'store-failed': 'unavailable' } as const

function decidedCall(
  outcome: keyof typeof callOutcomes,
  events: readonly DecisionEvent[],
  backendMs: number,
): DecidedRequest {
  const deciding = decidingEvent(events)
  const shadowDenied = events.flatMap(({ charge, decision }) => {
    return charge?.isShadow === true && decision?.allowed === false ? [charge.name] : []
  })
  const isRefused = outcome !== 'within'
  return {
    outcome: callOutcomes[outcome],
    reason: (isRefused ? deciding?.name : deciding?.decision.degraded?.reason) ?? null,
    deciding,
    shadowDenied,
    backendMs,
  }
}

/** The first limit that refuses, or the one with the fewest units left. */
function decidingEvent(events: readonly DecisionEvent[]): DecidedRequest['deciding'] {
  let found: DecidedRequest['deciding']
  for (const { charge, decision } of events) {
    if (charge === undefined || decision === undefined) continue
    if (charge.isShadow || charge.isNegative) continue
    if (found !== undefined && !isStricter(decision, found.decision)) continue
    const { name, limit, key } = charge
    found = { name, limit, key, decision }
  }
  return found
}

function isStricter(one: Decision, other: Decision): boolean {
  if (one.allowed !== other.allowed) return !one.allowed
  if (isUnavailable(one) !== isUnavailable(other)) return isUnavailable(other)
  return one.remaining < other.remaining
}

/** Envoy's configuration decides which parts of a request its descriptors have. */
function callerOfCall({ domain, descriptors }: RateLimitRequest, ids: CallIds): Caller {
  const entries = descriptors.flatMap((descriptor) => descriptor.entries)
  const { identity, ip, method, path, header } = descriptorFacts(domain, entries)
  const apiKey = identity.apiKey ?? header('api_key') ?? header('x-api-key')
  return {
    requestId: isRequestId(ids.requestId) ? ids.requestId : undefined,
    traceId: parseTraceparent(ids.traceparent)?.traceId,
    client: identity.organisation ?? apiKey ?? identity.user ?? ip,
    apiKey,
    method: method || (path === '' ? '' : 'ANY'),
    path,
  }
}
