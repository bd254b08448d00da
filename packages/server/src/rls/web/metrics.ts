/**
 * The metrics under the reference's names: for Prometheus, and as lines for `/stats`. They are made
 * when they are read. Labels come from the configuration, and from requests only where that asks
 * for it, which has a cap in service/stats.ts.
 */

import { Counter, Gauge, Registry } from 'prom-client'
import { bucketsMs, type ResponseTimes } from '../service/response-times.ts'
import { type RuleStats, type Stats, statKey } from '../service/stats.ts'
import type { MetricsPage } from './debug-pages.ts'

export interface MetricSources {
  readonly stats: Stats
  readonly times: ResponseTimes
  readonly connections: () => number
}

type RuleCount = Exclude<keyof RuleStats, 'domain' | 'keys'>

const ruleCounts: readonly (readonly [name: string, field: RuleCount])[] = [
  ['total_hits', 'totalHits'],
  ['over_limit', 'overLimit'],
  ['over_limit_with_local_cache', 'overLimitWithLocalCache'],
  ['near_limit', 'nearLimit'],
  ['within_limit', 'withinLimit'],
  ['shadow_mode', 'shadowMode'],
  ['total_negative_hits', 'totalNegativeHits'],
  ['unlimited', 'unlimited'],
]

/** Of rules without a limit only, which have nothing else to count; left out of all others. */
const isShown = (rule: RuleStats, field: RuleCount) => field !== 'unlimited' || rule.unlimited > 0

const METHOD = 'ShouldRateLimit'

const TIMES = 'ratelimit_service_response_time_seconds'

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export function metricsRegistry(sources: MetricSources): MetricsPage {
  const { stats, times, connections } = sources
  const registry = new Registry()
  const add = counters(registry)
  for (const [name, field] of ruleCounts) {
    add(`rate_limit_${name}`, `${name} of each rule`, () => ruleSamples(stats, field))
  }
  add('should_rate_limit_error', 'Calls without an answer', () => [
    { labels: { err_type: 'redis_error' }, value: stats.storeErrors },
    { labels: { err_type: 'service_error' }, value: stats.serviceErrors },
    { labels: { err_type: 'overloaded' }, value: stats.shedCalls },
  ])
  add('total_requests', 'Calls', () => [
    { labels: { grpc_method: METHOD }, value: stats.totalRequests },
  ])
  add('config_load_success', 'Configurations loaded', () => one(stats.configLoadSuccess))
  add('config_load_error', 'Configurations refused', () => one(stats.configLoadError))
  add('global_shadow_mode', 'Calls admitted by shadow mode', () => one(stats.globalShadowMode))
  add('domain_not_found', 'Calls for domains that are not configured', () =>
    [...stats.unknownDomains].map(([domain, value]) => ({ labels: { domain }, value })),
  )
  new Gauge({
    name: 'ratelimit_service_connections',
    help: 'Connections of clients',
    registers: [registry],
    collect() {
      this.set(connections())
    },
  })
  return {
    contentType: registry.contentType,
    metrics: async () => `${await registry.metrics()}\n${timesText(times)}`,
  }
}

/** `name: value`, one in each line, in the order of the names. */
export function statsText({ stats, connections }: MetricSources): string {
  const lines: string[] = []
  for (const rule of stats.rules) {
    const name = `ratelimit.service.rate_limit.${statKey(rule.domain, rule.keys)}`
    for (const [count, field] of ruleCounts) {
      if (isShown(rule, field)) lines.push(`${name}.${count}: ${rule[field]}`)
    }
  }
  for (const [domain, value] of stats.unknownDomains) {
    lines.push(`ratelimit.service.rate_limit.${statKey(domain, [])}.domain_not_found: ${value}`)
  }
  lines.push(
    `ratelimit.service.config_load_success: ${stats.configLoadSuccess}`,
    `ratelimit.service.config_load_error: ${stats.configLoadError}`,
    `ratelimit.service.global_shadow_mode: ${stats.globalShadowMode}`,
    `ratelimit.service.call.should_rate_limit.redis_error: ${stats.storeErrors}`,
    `ratelimit.service.call.should_rate_limit.service_error: ${stats.serviceErrors}`,
    `ratelimit.service.call.should_rate_limit.overloaded: ${stats.shedCalls}`,
    `ratelimit_server.${METHOD}.total_requests: ${stats.totalRequests}`,
    `ratelimit_server.connections: ${connections()}`,
  )
  return `${lines.map(printable).sort().join('\n')}\n`
}

/** Counters whose values are somewhere else. */
function counters(registry: Registry) {
  return (name: string, help: string, read: () => readonly Sample[]) =>
    new Counter({
      name: `ratelimit_service_${name}`,
      help,
      labelNames: ['domain', 'key1', 'key2', 'err_type', 'grpc_method'],
      registers: [registry],
      collect() {
        this.reset()
        for (const { labels, value } of read()) this.inc(labels, value)
      },
    })
}

function one(value: number): Sample[] {
  return [{ labels: {}, value }]
}

/** Keys below the second are in no label: the counts of several rules add up there. */
function ruleSamples(stats: Stats, field: RuleCount): Sample[] {
  const shown = [...stats.rules].filter((rule) => isShown(rule, field))
  return shown.map((rule) => {
    const [key1 = '', key2] = rule.keys.map((key) => statKey(key, []))
    const labels = { domain: statKey(rule.domain, []), key1 }
    return { labels: key2 === undefined ? labels : { ...labels, key2 }, value: rule[field] }
  })
}

/** As a histogram is written: https://prometheus.io/docs/instrumenting/exposition_formats/ */
function timesText({ counts, sumMs, count }: ResponseTimes): string {
  const labels = `grpc_method="${METHOD}"`
  let sum = 0
  const buckets = Array.from(counts, (own, at) => {
    sum += own
    const most = bucketsMs[at]
    const le = most === undefined ? '+Inf' : String(most / 1_000)
    return `${TIMES}_bucket{${labels},le="${le}"} ${sum}`
  })
  return [
    `# HELP ${TIMES} Time to answer`,
    `# TYPE ${TIMES} histogram`,
    ...buckets,
    `${TIMES}_sum{${labels}} ${sumMs / 1_000}`,
    `${TIMES}_count{${labels}} ${count}`,
    '',
  ].join('\n')
}

/** Values of requests may hold anything; a line stays a line. */
function printable(line: string): string {
  return line.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')
}
