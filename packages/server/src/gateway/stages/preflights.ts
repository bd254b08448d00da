/**
 * CORS pre-flights: a browser asks whether a page may send a request. A pre-flight carries no
 * credentials, so authentication cannot identify it and no limit can be charged for it.
 *
 * Pre-flights skip authentication and limits, and other requests must not use that to skip them.
 * So only a request that a browser can send counts as a pre-flight, and the number that a client
 * can send to upstreams is bounded. https://fetch.spec.whatwg.org/#cors-preflight-fetch
 */

import { createLimiter, memoryStore, tokenBucket } from 'tidegate'
import { createContextKey } from '../context.ts'
import type { GatewayRequest } from '../message.ts'
import type { Stage } from '../pipeline.ts'
import { refusal } from '../refusal.ts'
import { isExempt } from './ip-lists.ts'

/** A page asks once for each resource, mostly when it is opened. */
const BURST_SECONDS = 10

/** A counter takes about 200 bytes, so 20 MB at most. */
const CLIENTS_MAX = 100_000

/** The method that a pre-flight asks for; undefined for every other request. */
export const preflightMethod = createContextKey<string | undefined>(undefined)

/** Marks pre-flights. A request with credentials is not one: it is authenticated and counted. */
export function markPreflights(keyHeader: string): Stage {
  return (request, next) => {
    if (request.method === 'OPTIONS') {
      request.context.set(preflightMethod, requestedMethod(request, keyHeader))
    }
    return next(request)
  }
}

function requestedMethod(request: GatewayRequest, keyHeader: string): string | undefined {
  if (request.hasBody || request.header('origin') === undefined) return undefined
  for (const name of ['authorization', 'cookie', keyHeader]) {
    if (request.header(name) !== undefined) return undefined
  }
  return request.header('access-control-request-method') || undefined
}

/** Bounds the pre-flights of each client that the gateway does not answer itself. */
export function boundPreflights(perSecondMax: number): Stage {
  const burst = perSecondMax * BURST_SECONDS
  const limiter = createLimiter({
    limit: tokenBucket({ limit: perSecondMax, per: '1s', burst }),
    store: memoryStore({ keysMax: CLIENTS_MAX }),
  })
  return (request, next) => {
    const { context } = request
    if (context.get(preflightMethod) === undefined || context.get(isExempt)) return next(request)
    if (limiter.checkSync(request.client).allowed) return next(request)
    return refusal(429, 'This client sends too many pre-flights.', ['retry-after', '1'])
  }
}
