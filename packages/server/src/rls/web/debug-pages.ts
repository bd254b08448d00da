/**
 * The pages for those who look after the service: its limits and its counts. They change nothing.
 */

import type { RequestListener, ServerResponse } from 'node:http'
import { pathOf, send, sendText } from '../../http-door.ts'
import type { RlsConfig } from '../config/rls-config.ts'
import { type MetricSources, statsText } from './metrics.ts'

export interface DebugParts {
  readonly config: () => RlsConfig | undefined
  readonly sources: MetricSources
  readonly registry: MetricsPage
}

/** A registry of prom-client is one. */
export interface MetricsPage {
  readonly contentType: string
  metrics(): Promise<string>
}

const index = `/rlconfig: print out the currently loaded configuration for debugging
/stats: print out stats
/metrics: the same for Prometheus
`

export function debugDoor({ config, sources, registry }: DebugParts): RequestListener {
  return (request, response) => {
    const path = pathOf(request)
    if (path === '/') sendText(response, 200, index)
    else if (path === '/rlconfig') sendText(response, 200, configText(config()))
    else if (path === '/stats') sendText(response, 200, statsText(sources))
    else if (path === '/metrics') sendMetrics(response, registry)
    else sendText(response, 404, '404 page not found\n')
  }
}

/** A port for metrics alone, which others than those on this machine may reach. */
export function metricsDoor(registry: MetricsPage, path: string): RequestListener {
  return (request, response) => {
    if (pathOf(request) === path) sendMetrics(response, registry)
    else sendText(response, 404, '404 page not found\n')
  }
}

/** One line for each limit, as the reference prints it. */
export function configText(config: RlsConfig | undefined): string {
  const lines = (config?.rules ?? []).map(({ fullKey, rule }) => {
    const { unit, requestsPerUnit, isShadow, isQuota } = rule
    const limit = `unit=${unit.name} requests_per_unit=${requestsPerUnit}`
    return `${fullKey}: ${limit}, shadow_mode: ${isShadow}, quota_mode: ${isQuota}\n`
  })
  return lines.join('')
}

function sendMetrics(response: ServerResponse, registry: MetricsPage): void {
  registry.metrics().then(
    (body) => send(response, 200, registry.contentType, body),
    () => sendText(response, 500, ''),
  )
}
