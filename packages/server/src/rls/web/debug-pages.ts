/** The pages for operators: the limits and statistics of the service. They are read-only. */

import type { RequestListener } from 'node:http'
import { textResponse } from '../../http-api/messages.ts'
import { router } from '../../http-api/router.ts'
import type { RlsConfig } from '../config/rls-config.ts'
import type { Counted } from '../config/rule.ts'
import { METRICS_TYPE, type MetricSources, metricsLines, statsLines } from './metrics.ts'
import { failedResponse } from './public-pages.ts'

export interface DebugParts {
  /** The text of `/rlconfig`. */
  configText(): string
  readonly sources: MetricSources
}

const index = `/rlconfig: print out the currently loaded configuration for debugging
/stats: print out stats
/metrics: print out stats for Prometheus
`

const STATS_TYPE = 'text/plain; charset=utf-8'

export function debugPages({ configText: text, sources }: DebugParts): RequestListener {
  const stats = () => ({ status: 200, type: STATS_TYPE, body: statsLines(sources) })
  const routes = {
    '/': { any: () => textResponse(200, index) },
    '/rlconfig': { any: () => textResponse(200, text()) },
    '/stats': { any: stats },
    '/metrics': { any: metrics(sources) },
  }
  return router({ routes, failed: failedResponse })
}

/** Metrics alone, for a listener that other machines may reach. */
export function metricsPages(sources: MetricSources, path: string): RequestListener {
  return router({ routes: { [path]: { any: metrics(sources) } }, failed: failedResponse })
}

function metrics(sources: MetricSources) {
  return () => ({ status: 200, type: METRICS_TYPE, body: metricsLines(sources) })
}

/** One line for each limit, as the reference prints it, followed by Tidegate's own settings. */
export function configText(config: RlsConfig | undefined): string {
  const lines = (config?.rules ?? []).map(({ fullKey, rule }) => {
    const { unit, requestsPerUnit, isShadow, isQuota, counted } = rule
    const limit = `unit=${unit.name} requests_per_unit=${requestsPerUnit}`
    const modes = `shadow_mode: ${isShadow}, quota_mode: ${isQuota}`
    return `${fullKey}: ${limit}, ${modes}, ${countedText(counted)}\n`
  })
  return lines.join('')
}

/** Uses the names of the configuration. */
function countedText(counted: Counted | undefined): string {
  if (counted === undefined) return 'unlimited: true'
  const { compiled, onStoreError } = counted
  const limit = compiled.base
  const algorithm = limit.algorithm.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  const burst = limit.algorithm === 'tokenBucket' ? `, burst: ${limit.burst}` : ''
  return `algorithm: ${algorithm}${burst}, on_store_error: ${onStoreError}`
}
