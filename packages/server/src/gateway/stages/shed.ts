/**
 * Refuses requests by their priority when the process has more than it can serve. It comes before
 * anything costly. Without an overload it only counts the request; priorities are looked up only
 * while requests are refused.
 *
 * The tier of a caller is known only after authentication. Until then, a request counts with the
 * highest priority that a tier could give it; `shedByTier` decides again once the tier is known.
 */

import type { MaybePromise } from 'tidegate'
import { higher, PRIORITY_DEFAULT, type Priority } from '../../limits/priority.ts'
import type { Overload } from '../../overload/overload.ts'
import { RETRY_SECONDS_MAX, retryAfterSeconds } from '../../overload/retry-after.ts'
import type { RoutesSection } from '../../policy/schema/routes-section.ts'
import { createContextKey } from '../context.ts'
import type { LivePolicy } from '../live-policy.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import type { Handler, Stage } from '../pipeline.ts'
import { refusal } from '../refusal.ts'
import { isUrgent } from '../upstreams/upstream-context.ts'
import { routeFinder } from './route.ts'

/** The priority by which a request was refused. */
export const refusedPriority = createContextKey<Priority | undefined>(undefined)

export interface ShedOptions {
  readonly overload: Overload
  readonly policy: LivePolicy
  readonly routes: RoutesSection
}

/** The two checks. They share the responses, which are made once a second. */
export interface ShedStages {
  readonly shed: Stage
  readonly shedByTier: Stage
  /** True if a route or a limit makes a request critical; its tier is not known yet. */
  isCritical(request: GatewayRequest): boolean
}

export function shedStages({ overload, policy, routes }: ShedOptions): ShedStages {
  const byRoute = routePriorities(routes)
  const overloaded = overloadedResponses()
  const leave = () => overload.leave()
  const stated = (request: GatewayRequest) =>
    higher(byRoute(request), policy.enforcer().priorities.ofRequest(request))
  const refuse = (request: GatewayRequest, priority: Priority) => {
    const { connection } = request
    request.context.set(refusedPriority, priority)
    connection.refusals += 1
    // On a connection of a trusted proxy, the next request can be that of another client.
    if (!connection.isTrusted) connection.holdMs = overload.holdMs(connection.refusals)
    return overloaded()
  }
  const checkAgain = (
    request: GatewayRequest,
    byTier: Priority | undefined,
    next: Handler,
  ): MaybePromise<GatewayResponse> => {
    const known = stated(request)
    const priority = higher(known, byTier) ?? PRIORITY_DEFAULT
    // A request that counted with this priority at the first check is not drawn twice.
    const isKnown = priority === possible(known, policy.enforcer().priorities.tierMax)
    request.context.set(isUrgent, priority === 'critical')
    return isKnown || overload.admits(priority) ? proceed(request, next) : refuse(request, priority)
  }
  return {
    isCritical: (request) => stated(request) === 'critical',
    shed(request, next) {
      if (!overload.isCalm) {
        const { tierMax } = policy.enforcer().priorities
        const priority = possible(stated(request), tierMax)
        if (!overload.admits(priority)) return refuse(request, priority)
        request.context.set(isUrgent, priority === 'critical')
      }
      // A connection that switches protocols stays open without work: it is not in flight.
      if (request.upgrade === undefined) {
        overload.enter()
        request.onEnd(leave)
      }
      return next(request)
    },
    shedByTier(request, next) {
      const { priorities } = policy.enforcer()
      if (priorities.tierMax === undefined || overload.isCalm) return proceed(request, next)
      const byTier = priorities.ofCaller(request.identity)
      if (!(byTier instanceof Promise)) return checkAgain(request, byTier, next)
      return byTier.then((found) => checkAgain(request, found, next))
    },
  }
}

function proceed(request: GatewayRequest, next: Handler): MaybePromise<GatewayResponse> {
  request.connection.refusals = 0
  return next(request)
}

/** The highest priority that a request can have, whatever its tier. */
function possible(stated: Priority | undefined, tierMax: Priority | undefined): Priority {
  return higher(stated ?? PRIORITY_DEFAULT, tierMax) ?? PRIORITY_DEFAULT
}

/** The route that a request takes is the first that matches, so only that one counts. */
function routePriorities(routes: RoutesSection): (request: GatewayRequest) => Priority | undefined {
  if (routes.every(({ priority }) => priority === undefined)) return () => undefined
  const find = routeFinder(routes)
  return (request) => routes[find(request)]?.priority
}

/** One response for each number of seconds to wait, shared by all requests of a second. */
function overloadedResponses(): () => GatewayResponse {
  const responses: GatewayResponse[] = []
  let second = 0
  return () => {
    const nowSecond = Math.floor(Date.now() / 1_000)
    if (nowSecond !== second) {
      // They carry the date.
      second = nowSecond
      for (let wait = 1; wait <= RETRY_SECONDS_MAX; wait++) {
        responses[wait] = overloadedResponse(wait)
      }
    }
    return responses[retryAfterSeconds()] ?? overloadedResponse(1)
  }
}

function overloadedResponse(waitSeconds: number): GatewayResponse {
  const response = refusal(503, 'The gateway is overloaded.', ['retry-after', String(waitSeconds)])
  response.isShared = true
  return response
}
