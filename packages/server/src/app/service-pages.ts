/** The page of metrics of a running service: its counters, and gauges that are read for it. */

import { gauge, type MetricFamily, type MetricSample } from 'tidegate/metrics'
import type { RunningGateway } from '../gateway/gateway.ts'
import type { ApiResponse } from '../http-api/messages.ts'
import { switchStates } from '../limits/live/live-entries.ts'
import { contentTypes, formatFor, pageLines } from '../observability/metrics/exposition.ts'
import { processMetrics } from '../observability/metrics/process-metrics.ts'
import type { ServiceMetrics } from '../observability/metrics/service-metrics.ts'
import type { Overload } from '../overload/overload.ts'
import type { OpenStore } from '../stores/create-store.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { OperatedEnvoy } from './operators/operated-envoy.ts'
import type { PolicyRuntime } from './policy-runtime.ts'
import { regionFamilies } from './regions/open-regions.ts'

export interface PageParts {
  readonly metrics: ServiceMetrics
  readonly runtime: PolicyRuntime
  readonly version: string
  gateway(): RunningGateway | undefined
}

/** Targets with series of their own: a page stays small in front of a large fleet. */
const TARGETS_MAX = 30

/** Reads the families of one process; those of all processes, if there are several. */
export type ReadPage = () => Promise<readonly MetricFamily[]>

/** Adds the gauges of the parts to the metrics of a service. */
export function addGauges(
  { metrics, runtime, version, gateway }: PageParts,
  lifecycle: Lifecycle,
): void {
  const own = processMetrics(version)
  lifecycle.add(() => own.close())
  metrics.store.follow(runtime.store.store)
  metrics.add(() => [
    ...policyGauges(runtime),
    ...overloadFamilies(runtime.overload),
    ...gatewayGauges(gateway()),
    ...regionFamilies(runtime.regions?.state()),
    connectionGauge([runtime.store]),
    ...own.read(),
  ])
}

export async function metricsResponse(
  read: ReadPage,
  accept: string | undefined,
): Promise<ApiResponse> {
  const format = formatFor(accept)
  const families = await read()
  return { status: 200, type: contentTypes[format], body: pageLines(families, format) }
}

/** The parts of a rate limit service with Envoy's files. */
export interface EnvoyPageParts {
  readonly metrics: ServiceMetrics
  readonly overload: Overload
  readonly stores: readonly OpenStore[]
  readonly operated: OperatedEnvoy
}

/** Adds the gauges of a service with Envoy's files, under the names that a policy has. */
export function addEnvoyGauges(
  { metrics, overload, stores, operated }: EnvoyPageParts,
  program: string,
  lifecycle: Lifecycle,
): void {
  const own = processMetrics(program)
  lifecycle.add(() => own.close())
  for (const { store } of stores) metrics.store.follow(store)
  metrics.add(() => {
    const { version, limits, loadedAtMs } = operated.loaded()
    return [
      ...versionGauges(version, limits, loadedAtMs),
      ...overloadFamilies(overload),
      connectionGauge(stores),
      ...own.read(),
    ]
  })
}

function policyGauges(runtime: PolicyRuntime): readonly MetricFamily[] {
  const { id, loadedAtMs } = runtime.policy
  const state = runtime.document.enabled ? runtime.switchState : 'off'
  const states = switchStates.map((one) => ({
    labels: { state: one },
    value: one === state ? 1 : 0,
  }))
  return [
    ...versionGauges(id, runtime.document.limits.length, loadedAtMs),
    gauge('tidegate_switch_state', 'The state of the switch for limits.', states),
  ]
}

function versionGauges(
  version: string,
  limits: number,
  loadedAtMs: number,
): readonly MetricFamily[] {
  return [
    gauge('tidegate_policy_info', 'The policy in force.', [{ labels: { version }, value: 1 }]),
    gauge('tidegate_policy_limits', 'Limits of the policy.', limits),
    gauge(
      'tidegate_policy_loaded_timestamp_seconds',
      'When the policy went live, in seconds since 1970.',
      loadedAtMs / 1_000,
    ),
  ]
}

function overloadFamilies(overload: Overload): readonly MetricFamily[] {
  const { delayMs, requests, shed, sheddingShare } = overload.status()
  const byPriority = (values: Readonly<Record<string, number>>): readonly MetricSample[] =>
    Object.entries(values).map(([priority, value]) => ({ labels: { priority }, value }))
  return [
    gauge('tidegate_overload_delay_seconds', 'How late the event loop is.', delayMs / 1_000),
    gauge('tidegate_overload_requests', 'Requests in flight.', requests),
    gauge(
      'tidegate_overload_shed_ratio',
      'Share of requests that is refused because the event loop is late.',
      byPriority(sheddingShare),
    ),
    {
      name: 'tidegate_overload_shed_total',
      help: 'Requests that were refused because of overload.',
      type: 'counter',
      samples: byPriority(shed),
    },
  ]
}

function gatewayGauges(gateway: RunningGateway | undefined): readonly MetricFamily[] {
  const upstreams = Object.entries(gateway?.upstreams() ?? {})
  const targets = upstreams
    .flatMap(([upstream, all]) => all.map((target) => ({ upstream, ...target })))
    .slice(0, TARGETS_MAX)
  const up = targets.map(({ upstream, target, state }) => {
    return { labels: { upstream, target: String(target) }, value: Number(state === 'healthy') }
  })
  const requests = targets.flatMap(({ upstream, target, inFlight, waiting }) => {
    const labels = { upstream, target: String(target) }
    return [
      { labels: { ...labels, state: 'in_flight' }, value: Number(inFlight) },
      { labels: { ...labels, state: 'waiting' }, value: Number(waiting) },
    ]
  })
  const { connections } = gateway ?? {}
  return [
    gauge('tidegate_gateway_connections', 'Open connections of clients.', connections),
    gauge('tidegate_gateway_target_up', 'Whether a target gets requests.', up),
    gauge('tidegate_gateway_target_requests', 'Requests to a target.', requests),
  ]
}

function connectionGauge(stores: readonly OpenStore[]): MetricFamily {
  const byShard = new Map<string, number>()
  for (const store of stores) {
    for (const [shard, count] of Object.entries(store.connections())) {
      byShard.set(shard, (byShard.get(shard) ?? 0) + count)
    }
  }
  const samples = [...byShard].map(([shard, value]) => ({ labels: { shard }, value }))
  return gauge('tidegate_store_connections', 'Open connections to the store.', samples)
}
