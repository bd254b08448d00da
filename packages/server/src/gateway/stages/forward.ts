/** The last stage: sends the request to its upstream. */

import type { Stage } from '../pipeline.ts'
import type { Upstream } from '../upstreams/upstream.ts'
import { routeOf } from './route.ts'

export function forward(): Stage {
  return (request) => {
    const upstream: Upstream = routeOf(request).upstream
    return upstream.send(request)
  }
}
