/** The store, and decisions without it. */

import { DEGRADED } from '../slos.ts'
import { type AlertRule, grows, NUMBER, PERCENT, SECONDS, stays, steps } from './alert-rule.ts'

const decisions = (matchers = '') => `sum by (job) (rate(tidegate_decisions_total${matchers}[5m]))`

const ofStore = 'tidegate_decisions_total{job="t",door="gateway",outcome="allowed",by="store"}'
const ofFallback = 'tidegate_decisions_total{job="t",door="gateway",outcome="allowed",by="open"}'
const open = 'tidegate_breaker_state{job="t",shard="main",state="open"}'
const halfOpen = 'tidegate_breaker_state{job="t",shard="main",state="half-open"}'
const slow = 'tidegate_decision_duration_seconds_bucket{job="t",door="rls",by="store",le="0.01"}'
const above = 'tidegate_decision_duration_seconds_bucket{job="t",door="rls",by="store",le="0.015"}'
const all = 'tidegate_decision_duration_seconds_bucket{job="t",door="rls",by="store",le="+Inf"}'
const failed = 'tidegate_store_commands_total{job="t",shard="main",result="timeout"}'

export const storeAlerts: readonly AlertRule[] = [
  {
    name: 'TidegateStoreDown',
    expr:
      'max by (job, shard) (tidegate_breaker_state{state!="closed"}) > 0\n' +
      '  or sum by (job, shard) (rate(tidegate_store_commands_total{result!="ok"}[5m])) > 10',
    for: '1m',
    severity: 'page',
    summary: 'The store of the counters does not answer',
    description: 'Shard {{ $labels.shard }} of {{ $labels.job }}: each limit decides by its mode.',
    board: 'store',
    fires: { series: { [open]: stays(1), [halfOpen]: stays(0), [failed]: grows(0) }, at: '5m' },
    quiet: { series: { [open]: stays(0), [halfOpen]: stays(0), [failed]: grows(60) }, at: '30m' },
  },
  {
    name: 'TidegateDegraded',
    expr: `${decisions(`{${DEGRADED}}`)} / ${decisions()} > 0.01`,
    for: '1m',
    severity: 'page',
    summary: 'More than 1 % of the decisions are made without the store',
    description: `${PERCENT} of the decisions of {{ $labels.job }} are degraded.`,
    board: 'store',
    fires: { series: { [ofStore]: grows(9_000), [ofFallback]: grows(300) }, at: '15m' },
    quiet: { series: { [ofStore]: grows(9_000), [ofFallback]: grows(30) }, at: '15m' },
  },
  {
    name: 'TidegateStoreMisconfigured',
    expr: 'sum by (job) (increase(tidegate_store_misconfigured_total[5m])) > 0',
    severity: 'page',
    summary: 'The store refuses calls until its set-up changes',
    description: `${NUMBER} calls of {{ $labels.job }} in 5 minutes, such as for a permission.`,
    board: 'store',
    fires: { series: { 'tidegate_store_misconfigured_total{job="t"}': steps(3) }, at: '25m' },
    quiet: { series: { 'tidegate_store_misconfigured_total{job="t"}': stays(3) }, at: '25m' },
  },
  {
    name: 'TidegateLatencyHigh',
    expr:
      'histogram_quantile(0.99, sum by (job, le) ' +
      '(rate(tidegate_decision_duration_seconds_bucket[5m]))) > 0.01\n' +
      '  and on (job) sum by (job) (rate(tidegate_decision_duration_seconds_count[5m])) > 1',
    for: '2m',
    severity: 'ticket',
    summary: 'One decision in 100 takes more than 10 ms',
    description: `p99 of {{ $labels.job }} is ${SECONDS}.`,
    board: 'latency',
    fires: latencyCase(900),
    quiet: latencyCase(1_000),
  },
  {
    name: 'TidegateShadowFailures',
    expr: 'sum by (job) (rate(tidegate_shadow_failures_total[5m])) > 0',
    for: '5m',
    severity: 'info',
    summary: 'Decisions in shadow mode fail',
    description: 'Figures of limits in shadow mode of {{ $labels.job }} are incomplete.',
    board: 'store',
    fires: { series: { 'tidegate_shadow_failures_total{job="t"}': grows(1) }, at: '15m' },
    quiet: { series: { 'tidegate_shadow_failures_total{job="t"}': stays(9) }, at: '15m' },
  },
  {
    name: 'TidegateTierFailures',
    expr: 'sum by (job, reason) (rate(tidegate_tier_failures_total[5m])) > 0',
    for: '5m',
    severity: 'ticket',
    summary: 'Tiers of clients cannot be looked up',
    description: '{{ $labels.job }} uses the last known or the default tier: {{ $labels.reason }}.',
    board: 'store',
    fires: { series: { 'tidegate_tier_failures_total{job="t",reason="x"}': grows(1) }, at: '15m' },
    quiet: { series: { 'tidegate_tier_failures_total{job="t",reason="x"}': stays(9) }, at: '15m' },
  },
]

function latencyCase(inTime: number) {
  const count = all.replace('_bucket', '_count').replace(',le="+Inf"', '')
  return {
    series: {
      [slow]: grows(inTime),
      [above]: grows(1_000),
      [all]: grows(1_000),
      [count]: grows(1_000),
    },
    at: '15m',
  }
}
