/** The span of the call to an upstream, which is the parent of the upstream's own span. */

import type { MaybePromise } from 'tidegate'
import type { TracedRequest } from '../../observability/tracing/tracing.ts'
import { fieldOf } from '../header-list.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import { whenDone } from '../pipeline.ts'
import type { Upstream } from '../upstreams/upstream.ts'
import { triedTargets } from '../upstreams/upstream-context.ts'
import { passOn, TRACEPARENT } from './trace.ts'

/** The span ends when the head of the response has arrived, as the upstream's time does. */
export function sendTraced(
  upstream: Upstream,
  request: GatewayRequest,
  span: TracedRequest,
): MaybePromise<GatewayResponse> {
  const { context, headers, method } = request
  const call = span.call(method, {
    'tidegate.upstream': upstream.name,
    'http.request.method': method,
  })
  const targets: string[] = []
  context.set(triedTargets, targets)
  // A route may have removed the field.
  if (fieldOf(headers, TRACEPARENT) !== undefined) passOn(headers, call.context)
  return whenDone(upstream.send(request), (response) => {
    const isError = response.status >= 400
    call.end(attributesOf(response, targets, isError), isError)
    return response
  })
}

function attributesOf({ status, problem }: GatewayResponse, targets: string[], isError: boolean) {
  const target = targets.at(-1)
  const { hostname, port, protocol } = new URL(target ?? 'http://none')
  const errorType = problem === undefined ? String(status) : 'no_response'
  return {
    ...(target !== undefined && {
      'server.address': hostname,
      'server.port': port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
    }),
    ...(problem === undefined && { 'http.response.status_code': status }),
    ...(targets.length > 1 && { 'http.request.resend_count': targets.length - 1 }),
    ...(isError && { 'error.type': errorType }),
  }
}
