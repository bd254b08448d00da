/**
 * Paths that the gateway answers itself, without limits: whether it lives, and whether it takes
 * requests. Load balancers ask often, and must get an answer when everything else is refused.
 */

import type { Stage } from '../message.ts'
import { answer } from '../refusal.ts'

export interface OwnPaths {
  readonly healthPath: string
  readonly readyPath: string
  isReady(): boolean
}

export function ownPaths({ healthPath, readyPath, isReady }: OwnPaths): Stage {
  return (request, next) => {
    const { path } = request
    if (path !== healthPath && path !== readyPath) return next(request)
    const isWell = path === healthPath || isReady()
    const body = isWell ? '{"status":"ok"}' : '{"status":"stopping"}'
    const headers = ['cache-control', 'no-store']
    return answer(isWell ? 200 : 503, body, 'application/json', headers)
  }
}
