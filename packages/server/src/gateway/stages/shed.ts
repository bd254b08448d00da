/**
 * Refuses requests early where the process has more than it can serve, by their priority. It stands
 * before anything costly. While there is no overload it only counts the request; which priority a
 * request has is looked up only when some are refused.
 *
 * The tier of a caller is known only behind authentication. Until then, a request counts with the
 * highest priority that a tier could give it; `shedByTier` looks again once the tier is known.
 */

import type { Overload } from '../../overload/overload.ts'
import { RETRY_SECONDS_MAX, retryAfterSeconds } from '../../overload/retry-after.ts'
import type { RoutesSection } from '../../policy/gateway-section.ts'
import { higher, PRIORITY_DEFAULT, type Priority } from '../../policy/priority.ts'
import type { LivePolicy } from '../live-policy.ts'
import type { GatewayRequest, GatewayResponse, Handler, MaybePromise, Stage } from '../message.ts'
import { refusal } from '../refusal.ts'
import { routeFinder } from './route.ts'

export interface ShedOptions {
  readonly overload: Overload
  readonly policy: LivePolicy
  readonly routes: RoutesSection
}

/** The two looks. They share the responses, which are made once for each second. */
export interface ShedStages {
  readonly shed: Stage
  readonly shedByTier: Stage
  /** Whether a route or a limit makes a request critical. A tier is not known yet. */
  isCritical(request: GatewayRequest): boolean
}

export function shedStages({ overload, policy, routes }: ShedOptions): ShedStages {
  const byRoute = routePriorities(routes)
  const overloaded = overloadedAnswers()
  const leave = () => overload.leave()
  const stated = (request: GatewayRequest) =>
    higher(byRoute(request), policy.enforcer().priorities.ofRequest(request))
  const refuse = (request: GatewayRequest, priority: Priority) => {
    const { connection } = request
    request.priority = priority
    // On a connection of a trusted proxy, the next request can be that of another client.
    if (connection.wasShed && !connection.isTrusted) request.holdMs = overload.holdMs
    connection.wasShed = true
    return overloaded()
  }
  const lookAgain = (
    request: GatewayRequest,
    byTier: Priority | undefined,
    next: Handler,
  ): MaybePromise<GatewayResponse> => {
    const known = stated(request)
    const priority = higher(known, byTier) ?? PRIORITY_DEFAULT
    // A request that counted with this priority at the first look is not drawn twice.
    const isKnown = priority === possible(known, policy.enforcer().priorities.tierMax)
    request.isUrgent = priority === 'critical'
    return isKnown || overload.admits(priority) ? goOn(request, next) : refuse(request, priority)
  }
  return {
    isCritical: (request) => stated(request) === 'critical',
    shed(request, next) {
      if (!overload.isCalm) {
        const { tierMax } = policy.enforcer().priorities
        const priority = possible(stated(request), tierMax)
        if (!overload.admits(priority)) return refuse(request, priority)
        request.isUrgent = priority === 'critical'
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
      if (priorities.tierMax === undefined || overload.isCalm) return goOn(request, next)
      const byTier = priorities.ofCaller(request.identity)
      if (!(byTier instanceof Promise)) return lookAgain(request, byTier, next)
      return byTier.then((found) => lookAgain(request, found, next))
    },
  }
}

function goOn(request: GatewayRequest, next: Handler): MaybePromise<GatewayResponse> {
  request.connection.wasShed = false
  return next(request)
}

/** The highest priority that a request can turn out to have. */
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
function overloadedAnswers(): () => GatewayResponse {
  const answers: GatewayResponse[] = []
  let second = 0
  return () => {
    const nowSecond = Math.floor(Date.now() / 1_000)
    if (nowSecond !== second) {
      // They carry the date.
      second = nowSecond
      for (let wait = 1; wait <= RETRY_SECONDS_MAX; wait++) answers[wait] = overloadedAnswer(wait)
    }
    return answers[retryAfterSeconds()] ?? overloadedAnswer(1)
  }
}

function overloadedAnswer(waitSeconds: number): GatewayResponse {
  const response = refusal(503, 'The gateway is overloaded.', ['retry-after', String(waitSeconds)])
  response.isShared = true
  return response
}
