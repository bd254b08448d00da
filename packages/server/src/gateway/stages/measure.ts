/**
 * Counts every response by route and status, with the time until it began. The stage that logs
 * calls it, because that sees refusals too, and a stage of its own would take another promise.
 */

import type { Histogram } from 'tidegate/metrics'
import {
  type GatewayMetrics,
  NO_ROUTE,
  type RouteMetrics,
} from '../../observability/metrics/gateway-metrics.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import { requestSpan } from '../request-trace.ts'
import { upstreamMs } from '../upstreams/upstream-context.ts'
import { foundRoute, type Route } from './route.ts'

/** The cells of a route and of its upstream. */
interface RouteCells {
  readonly route: RouteMetrics
  readonly upstreamTimes: Histogram
}

/** Called for every response, with the time at which its request was taken. */
export type Measure = (request: GatewayRequest, response: GatewayResponse, startMs: number) => void

export function measure(metrics: GatewayMetrics): Measure {
  const unrouted = metrics.routeOf(NO_ROUTE)
  const cells = new Map<Route, RouteCells>()
  const cellsOf = (route: Route): RouteCells => {
    const known = cells.get(route)
    if (known !== undefined) return known
    const { name, upstream } = route
    const made = {
      route: metrics.routeOf(name),
      upstreamTimes: metrics.upstreamTimes(upstream.name),
    }
    cells.set(route, made)
    return made
  }
  return ({ context }, { status }, startMs) => {
    const tookMs = performance.now() - startMs
    const route = context.get(foundRoute)
    const traceId = context.get(requestSpan)?.traceId
    if (route === undefined) {
      unrouted.responded(status, tookMs, traceId)
      return
    }
    const own = cellsOf(route)
    own.route.responded(status, tookMs, traceId)
    const ms = context.get(upstreamMs)
    if (ms !== undefined) own.upstreamTimes.observe(ms / 1_000)
  }
}
