/**
 * Counts every response by route and status, with the time until it began. It wraps all other
 * stages, so that it sees refusals too.
 */

import type { Histogram } from 'tidegate/metrics'
import {
  type GatewayMetrics,
  NO_ROUTE,
  type RouteMetrics,
} from '../../observability/metrics/gateway-metrics.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import { type Stage, whenDone } from '../pipeline.ts'
import { upstreamMs } from '../upstreams/upstream-context.ts'
import { foundRoute, type Route } from './route.ts'

/** The cells of a route and of its upstream. */
interface RouteCells {
  readonly route: RouteMetrics
  readonly upstreamTimes: Histogram
}

export function measure(metrics: GatewayMetrics): Stage {
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
  const count = (
    { context }: GatewayRequest,
    { status }: GatewayResponse,
    startMs: number,
  ): void => {
    const tookMs = performance.now() - startMs
    const route = context.get(foundRoute)
    if (route === undefined) {
      unrouted.responded(status, tookMs)
      return
    }
    const own = cellsOf(route)
    own.route.responded(status, tookMs)
    const ms = context.get(upstreamMs)
    if (ms !== undefined) own.upstreamTimes.observe(ms / 1_000)
  }
  return (request, next) => {
    const startMs = performance.now()
    return whenDone(next(request), (response) => {
      count(request, response, startMs)
      return response
    })
  }
}
