/**
 * Finds or begins the trace of a request, and starts its span if it is sampled. It wraps all other
 * stages, so that refusals have a span too.
 *
 * The upstream gets `traceparent` of this trace. A trace that was not begun here keeps its
 * `tracestate`; without a valid `traceparent`, the field has no meaning and is removed.
 * https://www.w3.org/TR/trace-context/
 */

import {
  formatTraceparent,
  parseTracestate,
  type TraceContext,
} from '../../observability/trace-context.ts'
import type { BegunTrace, TracedRequest, Tracing } from '../../observability/tracing/tracing.ts'
import { fieldOf, removeField, setField } from '../header-list.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import { type Stage, whenDone } from '../pipeline.ts'
import { requestSpan, requestTrace } from '../request-trace.ts'
import { foundRoute } from '../stages/route.ts'

export const TRACEPARENT = 'traceparent'
const TRACESTATE = 'tracestate'

/** As logs have it: enough to recognise an endpoint. */
const PATH_LENGTH_MAX = 256

export function traced(tracing: Tracing): Stage {
  return (request, next) => {
    const { headers, connection, context } = request
    const sent = fieldOf(headers, TRACEPARENT)
    const begun = tracing.begin(sent, connection.isTrusted)
    if (!begun.hasParent) removeField(headers, TRACESTATE)
    if (!begun.isSampled) {
      context.set(requestTrace, begun)
      // A caller that is not sampled either is the parent of the upstream's span.
      if (sent === undefined) headers.push(TRACEPARENT, formatTraceparent(begun))
      else if (!begun.hasParent || isFlagged(sent)) passOn(headers, begun)
      return next(request)
    }
    const span = start(tracing, begun, request)
    context.set(requestTrace, span.context)
    context.set(requestSpan, span)
    passOn(headers, span.context)
    return whenDone(next(request), (response) => {
      request.onEnd((isAborted) => end(span, request, response, isAborted))
      return response
    })
  }
}

/** Replaces the field of the caller, or adds it. */
export function passOn(headers: GatewayRequest['headers'], context: TraceContext): void {
  setField(headers, TRACEPARENT, formatTraceparent(context))
}

/** True if a valid `traceparent` has a flag other than none. */
function isFlagged(traceparent: string): boolean {
  return !traceparent.startsWith('-00', 52)
}

function start(tracing: Tracing, begun: BegunTrace, request: GatewayRequest): TracedRequest {
  const { headers, method, path, version, connection } = request
  const given = fieldOf(headers, TRACESTATE)
  const tracestate = given === undefined ? undefined : parseTracestate(given)
  if (given !== undefined && tracestate === undefined) removeField(headers, TRACESTATE)
  else if (tracestate !== undefined && tracestate !== given) {
    setField(headers, TRACESTATE, tracestate)
  }
  return tracing.request(begun, tracestate, methodOf(method), {
    'http.request.method': methodOf(method),
    'url.path': path.slice(0, PATH_LENGTH_MAX),
    'url.scheme': connection.isEncrypted ? 'https' : 'http',
    'network.protocol.version': version,
  })
}

function end(
  span: TracedRequest,
  { method, context }: GatewayRequest,
  { status }: GatewayResponse,
  isAborted: boolean,
): void {
  const route = context.get(foundRoute)?.name
  const name = route === undefined ? undefined : `${methodOf(method)} ${route}`
  // A denial is not an error: a span of a server has one for its own failures only.
  const isError = status >= 500
  const errorType = isAborted ? 'client_closed' : isError ? String(status) : undefined
  const attributes = {
    'http.response.status_code': status,
    ...(route !== undefined && { 'http.route': route }),
    ...(errorType !== undefined && { 'error.type': errorType }),
  }
  span.end(name, attributes, isError)
}

/** Bytes that did not parse as a request have no method. */
function methodOf(method: string): string {
  return method === '' ? 'HTTP' : method
}
