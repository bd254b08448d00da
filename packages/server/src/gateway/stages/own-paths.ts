/**
 * Paths that the gateway serves itself, without limits: liveness and readiness. Load balancers poll
 * them often, and must get a response when everything else is refused.
 */

import type { Stage } from '../pipeline.ts'
import { textResponse } from '../refusal.ts'

export interface OwnPaths {
  readonly healthPath: string
  readonly readyPath: string
  isReady(): boolean
}

export function ownPaths({ healthPath, readyPath, isReady }: OwnPaths): Stage {
  return (request, next) => {
    const { path } = request
    if (path !== healthPath && path !== readyPath) return next(request)
    const isOk = path === healthPath || isReady()
    const body = isOk ? '{"status":"ok"}' : '{"status":"stopping"}'
    return textResponse(isOk ? 200 : 503, body, 'application/json', ['cache-control', 'no-store'])
  }
}
