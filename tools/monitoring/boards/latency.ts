import type { Board } from './board.ts'
import { graph, heatmap, type Query } from './panel.ts'

/** p50, p95 and p99 of a histogram. */
export function quantiles(metric: string, matchers = ''): readonly Query[] {
  const buckets = `sum by (le) (rate(${metric}_bucket${matchers}[$__rate_interval]))`
  return [0.5, 0.95, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, ${buckets})`,
    legend: `p${quantile * 100}`,
  }))
}

export function p99By(label: string, metric: string): Query {
  const buckets = `sum by (${label}, le) (rate(${metric}_bucket[$__rate_interval]))`
  return { expr: `histogram_quantile(0.99, ${buckets})`, legend: `{{${label}}}` }
}

const decision = 'tidegate_decision_duration_seconds'

export const latency: Board = {
  name: 'latency',
  title: 'Latency',
  description: 'What a decision costs in time, and which part of it is the store.',
  panels: [
    graph({
      title: 'Decision: p50, p95, p99',
      unit: 's',
      red: 0.01,
      queries: quantiles(decision),
      alert: 'TidegateLatencyHigh',
    }),
    heatmap({
      title: 'Decision: all times',
      unit: 's',
      queries: [
        { expr: `sum by (le) (increase(${decision}_bucket[$__rate_interval]))`, legend: '{{le}}' },
      ],
      alert: 'TidegateLatencyBurnFast',
    }),
    graph({
      title: 'Decision p99 by door',
      unit: 's',
      red: 0.01,
      queries: [p99By('door', decision)],
      alert: 'TidegateLatencyHigh',
    }),
    graph({
      title: 'Decision p99 with the store and without',
      description: 'Decisions that ask the store, and those from memory, leases and fallbacks.',
      unit: 's',
      red: 0.01,
      queries: [
        { ...quantiles(decision, '{by="store"}')[2], legend: 'store' } as Query,
        { ...quantiles(decision, '{by!="store"}')[2], legend: 'local' } as Query,
      ],
    }),
    graph({
      title: 'Store command p99 by shard',
      unit: 's',
      queries: [p99By('shard', 'tidegate_store_command_duration_seconds')],
      alert: 'TidegateLatencyHigh',
    }),
    graph({
      title: 'Round trip and deadline',
      unit: 's',
      queries: [
        { expr: 'max(tidegate_store_round_trip_seconds)', legend: 'round trip' },
        { expr: 'max(tidegate_store_deadline_seconds)', legend: 'deadline' },
      ],
    }),
    graph({
      title: 'Gateway: whole request until the response begins',
      unit: 's',
      queries: quantiles('tidegate_gateway_request_duration_seconds'),
    }),
    graph({
      title: 'Gateway: upstream p99',
      unit: 's',
      queries: [p99By('upstream', 'tidegate_gateway_upstream_duration_seconds')],
    }),
  ],
}
