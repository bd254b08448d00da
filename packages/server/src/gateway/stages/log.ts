/**
 * Logs decisions: all refusals and degraded decisions, and a share of the others. It wraps all
 * other stages, so it sees every response. Refusals for other reasons than a limit, and responses
 * that break off, have lines of their own.
 */

import {
  type Caller,
  type DecisionLog,
  isPlain,
  rounded,
} from '../../observability/decision-log.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import { type Stage, whenDone } from '../pipeline.ts'
import { requestIdOf, traceIdOf } from '../request-id.ts'
import { type IncompleteResponse, onIncomplete, upstreamMs } from '../upstreams/upstream-context.ts'
import type { Measure } from './measure.ts'
import { limitOutcome, storeMs } from './rate-limit.ts'
import { foundRoute } from './route.ts'
import { refusedPriority } from './shed.ts'

/** `measure` counts responses; without it, nothing is counted. */
export function log(decisions: DecisionLog, measure?: Measure): Stage {
  const { lines } = decisions
  const write = (request: GatewayRequest, response: GatewayResponse) => {
    const { context } = request
    const verdict = context.get(limitOutcome)
    if (verdict === undefined || (response.problem !== undefined && isPlain(verdict))) {
      if (response.problem !== undefined) writeRefusal(request, response)
      return response
    }
    decisions.decided('gateway', verdict, () => callerOf(request), {
      backendMs: context.get(storeMs),
      upstreamMs: context.get(upstreamMs),
    })
    return response
  }
  const writeRefusal = (request: GatewayRequest, { status, problem }: GatewayResponse) => {
    const level = status >= 500 ? 'warn' : 'info'
    if (!lines.mayWrite(level)) return
    const priority = request.context.get(refusedPriority)
    const line = {
      ...decisions.callerFields(callerOf(request)),
      status,
      reason: problem,
      ...(priority !== undefined && { priority }),
      ...upstreamOf(request),
      ...decisions.placeFields(),
    }
    lines.emitCounted({ type: 'request-refused', level, line })
  }
  const writeIncomplete = (request: GatewayRequest, response: IncompleteResponse) => {
    if (!lines.mayWrite('warn')) return
    const line = {
      ...decisions.callerFields(callerOf(request)),
      ...response,
      ...upstreamOf(request),
      ...decisions.placeFields(),
    }
    lines.emitCounted({ type: 'response-cut-off', line })
  }
  return (request, next) => {
    request.context.set(onIncomplete, writeIncomplete)
    const startMs = measure === undefined ? 0 : performance.now()
    return whenDone(next(request), (response) => {
      measure?.(request, response, startMs)
      return write(request, response)
    })
  }
}

function upstreamOf({ context }: GatewayRequest) {
  const route = context.get(foundRoute)
  const ms = context.get(upstreamMs)
  return {
    ...(route !== undefined && { upstream: route.upstream.name }),
    ...(ms !== undefined && { upstream_ms: rounded(ms) }),
  }
}

function callerOf(request: GatewayRequest): Caller {
  const { identity, method, path } = request
  return {
    requestId: requestIdOf(request),
    traceId: traceIdOf(request),
    client: identity.organisation ?? identity.apiKey ?? identity.user ?? request.ip,
    apiKey: identity.apiKey,
    method,
    path,
  }
}
