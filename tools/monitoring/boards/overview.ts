import { DEGRADED, ratio } from '../slos.ts'
import type { Board } from './board.ts'
import { graph, stat, table } from './panel.ts'

const rate = (matchers = '') => `sum(rate(tidegate_decisions_total${matchers}[$__rate_interval]))`

const p99 =
  'histogram_quantile(0.99, sum by (le) ' +
  '(rate(tidegate_decision_duration_seconds_bucket[$__rate_interval])))'

export const overview: Board = {
  name: 'overview',
  title: 'Overview',
  description: 'Is it fine? The first line answers, the others show where to look.',
  panels: [
    stat({
      title: 'Availability, last hour',
      description: 'Share of requests that were decided with the store, and not shed.',
      unit: 'percentunit',
      width: 5,
      height: 5,
      redBelow: 0.999,
      queries: [{ expr: `1 - max(${ratio('1h')}{job=~"$job",slo="availability"})` }],
      alert: 'TidegateAvailabilityBurnFast',
    }),
    stat({
      title: 'Decision p99',
      unit: 's',
      width: 5,
      height: 5,
      red: 0.005,
      queries: [{ expr: p99 }],
      alert: 'TidegateLatencyBurnFast',
    }),
    stat({
      title: 'Denied',
      description: 'Share of requests that are denied.',
      unit: 'percentunit',
      width: 5,
      height: 5,
      red: 0.2,
      queries: [{ expr: `(${rate('{outcome="denied"}')} or vector(0)) / ${rate()}` }],
      alert: 'TidegateDenialShare',
    }),
    stat({
      title: 'Degraded',
      description: 'Share of decisions that are made without the store.',
      unit: 'percentunit',
      width: 5,
      height: 5,
      red: 0.01,
      queries: [{ expr: `(${rate(`{${DEGRADED}}`)} or vector(0)) / ${rate()}` }],
      alert: 'TidegateDegraded',
    }),
    stat({
      title: 'Policies',
      description: 'Versions of the policy that are live. One, unless a canary runs.',
      unit: 'short',
      width: 4,
      height: 5,
      red: 2,
      queries: [{ expr: 'count(count by (version) (tidegate_policy_info))' }],
      alert: 'TidegatePolicySplit',
    }),
    graph({
      title: 'Requests by outcome',
      unit: 'reqps',
      queries: [
        {
          expr: 'sum by (outcome) (rate(tidegate_decisions_total[$__rate_interval]))',
          legend: '{{outcome}}',
        },
      ],
      alert: 'TidegateDenialSpike',
    }),
    graph({
      title: 'Denied share',
      description: 'Share of requests that are denied, by door.',
      unit: 'percentunit',
      max: 1,
      red: 0.2,
      queries: [
        {
          expr:
            'sum by (door) (rate(tidegate_decisions_total{outcome="denied"}[$__rate_interval]))' +
            ' / sum by (door) (rate(tidegate_decisions_total[$__rate_interval]))',
          legend: '{{door}}',
        },
      ],
      alert: 'TidegateDenialShareHigh',
    }),
    graph({
      title: 'How decisions are made',
      unit: 'reqps',
      queries: [
        {
          expr: 'sum by (by) (rate(tidegate_decisions_total[$__rate_interval]))',
          legend: '{{by}}',
        },
      ],
      alert: 'TidegateDegraded',
    }),
    graph({
      title: 'Nodes that answer',
      description: 'Targets that Prometheus reaches, and processes that share the store.',
      unit: 'short',
      queries: [
        { expr: 'sum(up{job=~"$job",instance=~"$instance"})', legend: 'scraped' },
        { expr: 'max(tidegate_nodes)', legend: 'sharing the store' },
      ],
      alert: 'TidegateNodeDown',
    }),
    table({
      title: 'Policy of each node',
      unit: 'none',
      queries: [{ expr: 'sum by (instance, version) (tidegate_policy_info)' }],
      alert: 'TidegatePolicySplit',
    }),
    table({
      title: 'Version of each node',
      unit: 'none',
      queries: [{ expr: 'sum by (instance, version, node) (tidegate_build_info)' }],
    }),
  ],
}
