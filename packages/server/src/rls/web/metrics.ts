/**
 * The metrics of the reference: for Prometheus, and as lines for `/stats`. Lines are made one by
 * one while they are sent, so that calls do not wait for a long page. Labels come from the
 * configuration. If that asks for labels from requests, service/stats.ts bounds them.
 */

import { bucketsMs, type ResponseTimes } from '../service/response-times.ts'
import { labelText, type RuleStats, type Stats, statKey } from '../service/stats.ts'

export interface MetricSources {
  readonly stats: Stats
  readonly times: ResponseTimes
  readonly connections: () => number
}

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

type RuleCount = Exclude<keyof RuleStats, 'name' | 'rule' | 'labels'>

/** Ordered by name. */
const ruleCounts: readonly (readonly [name: string, field: RuleCount])[] = [
  ['near_limit', 'nearLimit'],
  ['over_limit', 'overLimit'],
  ['over_limit_with_local_cache', 'overLimitWithLocalCache'],
  ['shadow_mode', 'shadowMode'],
  ['total_hits', 'totalHits'],
  ['total_negative_hits', 'totalNegativeHits'],
  ['unlimited', 'unlimited'],
  ['within_limit', 'withinLimit'],
]

/** `unlimited` is shown only for rules without a limit. */
const isShown = (rule: RuleStats, field: RuleCount) => field !== 'unlimited' || rule.unlimited > 0

const METHOD = 'ShouldRateLimit'

const TIMES = 'ratelimit_service_response_time_seconds'

type Sample = readonly [labels: string, value: number]

/** https://prometheus.io/docs/instrumenting/exposition_formats/ */
export function* metricsLines({ stats, times, connections }: MetricSources): Generator<string> {
  for (const [name, field] of ruleCounts) {
    const samples = ruleSamples(stats, field)
    yield* metric('counter', `rate_limit_${name}`, `${name} of each rule`, samples)
  }
  yield* metric('counter', 'should_rate_limit_error', 'Calls without a decision', [
    ['err_type="redis_error"', stats.storeErrors],
    ['err_type="service_error"', stats.serviceErrors],
    ['err_type="overloaded"', stats.shedCalls],
  ])
  const calls = [[`grpc_method="${METHOD}"`, stats.totalRequests]] as const
  yield* metric('counter', 'total_requests', 'Calls', calls)
  const single = (name: string, help: string, value: number) =>
    metric('counter', name, help, [['', value]])
  yield* single('config_load_success', 'Configurations loaded', stats.configLoadSuccess)
  yield* single('config_load_error', 'Configurations refused', stats.configLoadError)
  yield* single('global_shadow_mode', 'Calls admitted by shadow mode', stats.globalShadowMode)
  const unknown = [...stats.unknownDomains].map(
    ([domain, value]) => [`domain="${labelText(domain)}"`, value] as const,
  )
  const unknownHelp = 'Calls for domains that are not configured'
  yield* metric('counter', 'domain_not_found', unknownHelp, unknown)
  yield* metric('gauge', 'connections', 'Connections of clients', [['', connections()]])
  yield* timesLines(times)
}

/** Lines of `name: value`, ordered by name. */
export function* statsLines({ stats, connections }: MetricSources): Generator<string> {
  const calls = 'ratelimit.service.call.should_rate_limit'
  yield `${calls}.overloaded: ${stats.shedCalls}`
  yield `${calls}.redis_error: ${stats.storeErrors}`
  yield `${calls}.service_error: ${stats.serviceErrors}`
  yield `ratelimit.service.config_load_error: ${stats.configLoadError}`
  yield `ratelimit.service.config_load_success: ${stats.configLoadSuccess}`
  yield `ratelimit.service.global_shadow_mode: ${stats.globalShadowMode}`
  const byName = (one: RuleStats, other: RuleStats) => (one.name < other.name ? -1 : 1)
  for (const rule of [...stats.rules].sort(byName)) {
    const name = printable(`ratelimit.service.rate_limit.${rule.name}`)
    for (const [count, field] of ruleCounts) {
      if (isShown(rule, field)) yield `${name}.${count}: ${rule[field]}`
    }
  }
  for (const [domain, value] of stats.unknownDomains) {
    const name = printable(`ratelimit.service.rate_limit.${statKey(domain, [])}`)
    yield `${name}.domain_not_found: ${value}`
  }
  yield `ratelimit_server.${METHOD}.total_requests: ${stats.totalRequests}`
  yield `ratelimit_server.connections: ${connections()}`
}

function* metric(
  type: 'counter' | 'gauge',
  shortName: string,
  help: string,
  samples: Iterable<Sample>,
): Generator<string> {
  const name = `ratelimit_service_${shortName}`
  yield `# HELP ${name} ${help}`
  yield `# TYPE ${name} ${type}`
  for (const [labels, value] of samples) {
    yield labels === '' ? `${name} ${value}` : `${name}{${labels}} ${value}`
  }
}

/** One sample for each set of labels, which several rules may share. */
function ruleSamples(stats: Stats, field: RuleCount): Iterable<Sample> {
  const sums = new Map<string, number>()
  for (const rule of stats.rules) {
    if (isShown(rule, field)) sums.set(rule.labels, (sums.get(rule.labels) ?? 0) + rule[field])
  }
  return sums
}

function* timesLines({ counts, sumMs, count }: ResponseTimes): Generator<string> {
  const labels = `grpc_method="${METHOD}"`
  yield `# HELP ${TIMES} Time to respond`
  yield `# TYPE ${TIMES} histogram`
  let sum = 0
  for (const [at, own] of counts.entries()) {
    sum += own
    const boundMs = bucketsMs[at]
    const le = boundMs === undefined ? '+Inf' : String(boundMs / 1_000)
    yield `${TIMES}_bucket{${labels},le="${le}"} ${sum}`
  }
  yield `${TIMES}_sum{${labels}} ${sumMs / 1_000}`
  yield `${TIMES}_count{${labels}} ${count}`
}

/** Replaces line breaks and control characters, which values of requests may contain. */
function printable(line: string): string {
  return line.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')
}
