/** Requests, connections and targets of the gateway. */

import {
  type Counter,
  counterFamily,
  type Histogram,
  histogramFamily,
  type MetricFamily,
} from 'tidegate/metrics'
import type { RefusedConnection } from '../traffic-events.ts'

/** Bounds of whole requests in seconds, as OpenTelemetry has them for HTTP. */
const requestBounds = [...[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]] as const

/** Routes with series of their own; those of a larger policy are counted as `other`. */
const ROUTES_MAX = 20

const UPSTREAMS_MAX = 10

/** The route of requests that got their response before a route was found. */
export const NO_ROUTE = 'none'

/** Statuses with series of their own, so that an upstream cannot make one for each number. */
const codes: ReadonlySet<number> = new Set([
  ...[101, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308],
  ...[400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 415, 422, 429, 431],
  ...[500, 501, 502, 503, 504, 508],
])

const route = { label: 'route', namesMax: ROUTES_MAX }
const upstream = { label: 'upstream', namesMax: UPSTREAMS_MAX }

/** The cells of one route. */
export class RouteMetrics {
  readonly #requests: (code: string) => Counter
  readonly #times: Histogram
  readonly #byStatus: (Counter | undefined)[] = []

  constructor(requests: (code: string) => Counter, times: Histogram) {
    this.#requests = requests
    this.#times = times
  }

  /** `traceId` is that of a sampled request. */
  responded(status: number, tookMs: number, traceId?: string): void {
    const counter = this.#byStatus[status] ?? this.#ofStatus(status)
    counter.value += 1
    this.#times.observe(tookMs / 1_000, 1, traceId)
  }

  #ofStatus(status: number): Counter {
    const code = codes.has(status) ? String(status) : `${Math.floor(status / 100)}xx`
    const counter = this.#requests(code)
    if (status > 0 && status < 1_000) this.#byStatus[status] = counter
    return counter
  }
}

export class GatewayMetrics {
  readonly #requests = counterFamily({
    name: 'tidegate_gateway_requests_total',
    help: 'Responses by route and status; a refusal before a route was found has the route none.',
    labels: ['route', 'code'],
    open: route,
  })
  readonly #times = histogramFamily(
    {
      name: 'tidegate_gateway_request_duration_seconds',
      help: 'Time from reading a request until its response begins.',
      labels: ['route'],
      open: route,
    },
    requestBounds,
  )
  readonly #upstreamTimes = histogramFamily(
    {
      name: 'tidegate_gateway_upstream_duration_seconds',
      help: 'Time until the response of an upstream begins or fails.',
      labels: ['upstream'],
      open: upstream,
    },
    requestBounds,
  )
  readonly #changes = counterFamily({
    name: 'tidegate_gateway_target_changes_total',
    help: 'Targets that fail, are ejected, or come back.',
    labels: ['upstream', 'change'],
    open: upstream,
  })
  readonly #refused = counterFamily({
    name: 'tidegate_gateway_connections_refused_total',
    help: 'Connections that were closed before they carried a request.',
    labels: ['reason'],
  })
  readonly #errors: Counter

  /** `errors` counts failures that should not happen, of all doors. */
  constructor(errors: Counter) {
    this.#errors = errors
  }

  failed(): void {
    this.#errors.value += 1
  }

  routeOf(name: string): RouteMetrics {
    return new RouteMetrics((code) => this.#requests.of(name, code), this.#times.of(name))
  }

  upstreamTimes(name: string): Histogram {
    return this.#upstreamTimes.of(name)
  }

  readonly refusedConnection = (reason: RefusedConnection): void => {
    this.#refused.of(reason).value += 1
  }

  readonly target = (name: string, change: string): void => {
    this.#changes.of(name, change).value += 1
  }

  get families() {
    return [this.#requests, this.#times, this.#upstreamTimes, this.#changes, this.#refused]
  }

  read(): readonly MetricFamily[] {
    return this.families.map((family) => family.read())
  }
}
