import type { Board } from './board.ts'
import { p99By } from './latency.ts'
import { graph, row } from './panel.ts'

const perSecond = (metric: string, by: string) =>
  `sum by (${by}) (rate(${metric}[$__rate_interval]))`

const fallback = [
  graph({
    title: 'Degraded decisions by mode',
    unit: 'reqps',
    queries: [
      {
        expr: perSecond('tidegate_degraded_decisions_total', 'mode, reason'),
        legend: '{{mode}} {{reason}}',
      },
    ],
    alert: 'TidegateDegraded',
  }),
  graph({
    title: 'Circuit breakers that are not closed',
    unit: 'short',
    queries: [
      {
        expr: 'sum by (shard, state) (tidegate_breaker_state{state!="closed"})',
        legend: '{{shard}} {{state}}',
      },
    ],
    alert: 'TidegateStoreDown',
  }),
  graph({
    title: 'Changes of circuit breakers',
    unit: 'ops',
    queries: [
      {
        expr: perSecond('tidegate_breaker_transitions_total', 'shard, to'),
        legend: '{{shard}} to {{to}}',
      },
    ],
    alert: 'TidegateStoreDown',
  }),
  graph({
    title: 'Outages that are over',
    unit: 's',
    queries: [
      {
        expr: 'sum by (shard) (increase(tidegate_store_outage_seconds_total[$__rate_interval]))',
        legend: '{{shard}}',
      },
    ],
  }),
  graph({
    title: 'Set-up, tiers and shadow mode: failures',
    unit: 'ops',
    queries: [
      { expr: 'sum(rate(tidegate_store_misconfigured_total[$__rate_interval]))', legend: 'set-up' },
      { expr: perSecond('tidegate_tier_failures_total', 'reason'), legend: 'tier {{reason}}' },
      { expr: 'sum(rate(tidegate_shadow_failures_total[$__rate_interval]))', legend: 'shadow' },
    ],
    alert: 'TidegateStoreMisconfigured',
  }),
  graph({
    title: 'Connections that failed',
    unit: 'ops',
    queries: [
      {
        expr: perSecond('tidegate_store_connection_errors_total', 'instance'),
        legend: '{{instance}}',
      },
    ],
    alert: 'TidegateStoreDown',
  }),
]

const shards = [
  graph({
    title: 'Commands by shard',
    unit: 'ops',
    queries: [{ expr: perSecond('tidegate_store_commands_total', 'shard'), legend: '{{shard}}' }],
  }),
  graph({
    title: 'Commands that failed',
    unit: 'ops',
    red: 10,
    queries: [
      {
        expr: perSecond('tidegate_store_commands_total{result!="ok"}', 'shard, result'),
        legend: '{{shard}} {{result}}',
      },
    ],
    alert: 'TidegateStoreDown',
  }),
  graph({
    title: 'Command p99 by shard',
    unit: 's',
    queries: [p99By('shard', 'tidegate_store_command_duration_seconds')],
  }),
  graph({
    title: 'Charges per command',
    unit: 'short',
    queries: [
      {
        expr:
          `${perSecond('tidegate_store_batch_charges_sum', 'shard')} / ` +
          perSecond('tidegate_store_batch_charges_count', 'shard'),
        legend: '{{shard}}',
      },
    ],
  }),
  graph({
    title: 'Open connections',
    unit: 'short',
    queries: [{ expr: 'sum by (shard) (tidegate_store_connections)', legend: '{{shard}}' }],
    alert: 'TidegateStoreDown',
  }),
  graph({
    title: 'Leases and cached denials',
    description: 'Keys that are decided without a command to the store, and exactly.',
    unit: 'short',
    queries: [
      { expr: 'sum(tidegate_leases)', legend: 'leases' },
      { expr: 'sum(tidegate_cached_denials)', legend: 'cached denials' },
    ],
  }),
]

export const store: Board = {
  name: 'store',
  title: 'Store and fallback',
  description: 'Redis by shard, and decisions without it.',
  panels: [row('Fallback'), ...fallback, row('Shards'), ...shards],
}
