/** The last stage: sends the request to its upstream. */

import type { Stage } from '../pipeline.ts'
import { requestSpan } from '../request-trace.ts'
import { sendTraced } from '../tracing/upstream-span.ts'
import type { Upstream } from '../upstreams/upstream.ts'
import { routeOf } from './route.ts'

export function forward(): Stage {
  return (request) => {
    const upstream: Upstream = routeOf(request).upstream
    const span = request.context.get(requestSpan)
    return span === undefined ? upstream.send(request) : sendTraced(upstream, request, span)
  }
}
