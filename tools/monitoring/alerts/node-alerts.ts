/** Processes, their targets, and the monitoring itself. */

import { type AlertRule, grows, NUMBER, PERCENT, SECONDS, stays } from './alert-rule.ts'

const lag = 'nodejs_eventloop_lag_seconds{job="t",instance="a",percentile="99"}'
const shed = 'tidegate_overload_shed_total{job="t",priority="normal"}'
const target = (port: number) =>
  `tidegate_gateway_target_up{job="t",upstream="api",target="${port}"}`
const silent = 'tidegate_workers{job="t",instance="a",state="silent"}'
const overflow = 'tidegate_label_overflows_total{job="t",metric="x"}'

const builds = (count: string) => `count by (job) (tidegate_build_info${count})`

const nodes = (second: string) => ({
  series: {
    'tidegate_build_info{job="t",instance="a"}': '1+0x1560',
    'tidegate_build_info{job="t",instance="b"}': second,
  },
  at: '1540m',
})

export const nodeAlerts: readonly AlertRule[] = [
  {
    name: 'TidegateNodeDown',
    expr: 'up{job=~"tidegate.*"} == 0',
    for: '2m',
    severity: 'ticket',
    summary: 'A node cannot be scraped',
    description: '{{ $labels.instance }} of {{ $labels.job }} does not answer.',
    board: 'overview',
    fires: { series: { 'up{job="tidegate",instance="a"}': stays(0) }, at: '5m' },
    quiet: { series: { 'up{job="tidegate",instance="a"}': '0 0 1+0x20' }, at: '5m' },
  },
  {
    name: 'TidegateAbsent',
    expr: 'absent(tidegate_build_info)',
    for: '2m',
    severity: 'page',
    summary: 'Prometheus sees no process of Tidegate',
    description: 'All nodes are down, or the scrape is not set up.',
    board: 'overview',
    fires: { series: { 'up{job="other"}': stays(1) }, at: '5m' },
    quiet: { series: { 'tidegate_build_info{job="t"}': stays(1) }, at: '5m' },
  },
  {
    name: 'TidegateFewerNodes',
    expr: `${builds('')} < 0.8 * ${builds(' offset 1d')}`,
    for: '10m',
    severity: 'ticket',
    summary: 'There are fewer nodes than a day before',
    description: `${NUMBER} nodes of {{ $labels.job }} are left.`,
    board: 'overview',
    fires: nodes('1+0x100 stale'),
    quiet: nodes('1+0x1560'),
  },
  {
    name: 'TidegateWorkerSilent',
    expr: 'max by (job, instance) (tidegate_workers{state="silent"}) > 0',
    for: '2m',
    severity: 'ticket',
    summary: 'A process of a node hangs',
    description: `${NUMBER} processes of {{ $labels.instance }} do not answer.`,
    board: 'saturation',
    fires: { series: { [silent]: stays(1) }, at: '5m' },
    quiet: { series: { [silent]: stays(0) }, at: '5m' },
  },
  {
    name: 'TidegateOverloaded',
    expr: 'sum by (job) (rate(tidegate_overload_shed_total[5m])) > 0',
    for: '2m',
    severity: 'ticket',
    summary: 'Processes refuse requests because they have too many',
    description: `${NUMBER} requests per second of {{ $labels.job }} are refused.`,
    board: 'saturation',
    fires: { series: { [shed]: grows(60) }, at: '10m' },
    quiet: { series: { [shed]: stays(60) }, at: '10m' },
  },
  {
    name: 'TidegateEventLoopLag',
    expr: 'max by (job, instance) (nodejs_eventloop_lag_seconds{percentile="99"}) > 0.05',
    for: '5m',
    severity: 'ticket',
    summary: 'The event loop of a process is late',
    description: `p99 of {{ $labels.instance }} is ${SECONDS}.`,
    board: 'saturation',
    fires: { series: { [lag]: stays(0.2) }, at: '10m' },
    quiet: { series: { [lag]: '0.2 0.2 0.01+0x30' }, at: '10m' },
  },
  {
    name: 'TidegateUpstreamDown',
    expr: 'max by (job, upstream) (tidegate_gateway_target_up) == 0',
    for: '1m',
    severity: 'page',
    summary: 'An upstream has no healthy target',
    description: 'Requests of {{ $labels.job }} to {{ $labels.upstream }} get 503.',
    board: 'gateway',
    fires: { series: { [target(1)]: stays(0), [target(2)]: stays(0) }, at: '5m' },
    quiet: { series: { [target(1)]: stays(0), [target(2)]: stays(1) }, at: '5m' },
  },
  {
    name: 'TidegateTargetDown',
    expr: 'avg by (job, upstream, target) (tidegate_gateway_target_up) < 0.5',
    for: '10m',
    severity: 'ticket',
    summary: 'A target of an upstream gets no requests',
    description: `{{ $labels.target }} is healthy for ${PERCENT} of the nodes.`,
    board: 'gateway',
    fires: { series: { [target(1)]: stays(0), [target(2)]: stays(1) }, at: '15m' },
    quiet: { series: { [target(1)]: '0+0x5 1+0x20', [target(2)]: stays(1) }, at: '15m' },
  },
  {
    name: 'TidegateErrors',
    expr: 'sum by (job) (rate(tidegate_errors_total[5m])) > 0',
    for: '5m',
    severity: 'ticket',
    summary: 'Failures that should not happen',
    description: 'The log of {{ $labels.job }} has the events gateway.error and service.error.',
    board: 'saturation',
    fires: { series: { 'tidegate_errors_total{job="t"}': grows(1) }, at: '15m' },
    quiet: { series: { 'tidegate_errors_total{job="t"}': stays(9) }, at: '15m' },
  },
  {
    name: 'TidegateLabelOverflow',
    expr: 'max by (job, metric) (tidegate_label_overflows_total) > 0',
    severity: 'info',
    summary: 'A metric has more names than series',
    description: '{{ $labels.metric }} counts the names behind its maximum as other.',
    board: 'saturation',
    fires: { series: { [overflow]: stays(4) }, at: '5m' },
    quiet: { series: { [overflow]: stays(0) }, at: '5m' },
  },
  {
    name: 'TidegateWatchdog',
    expr: 'vector(1)',
    severity: 'none',
    summary: 'Always fires, to prove that alerts arrive',
    description: 'Send it to a service that reports its absence.',
    board: 'overview',
    fires: { series: { 'up{job="t"}': stays(1) }, at: '5m' },
    // It cannot be quiet before the first evaluation.
    quiet: { series: { 'up{job="t"}': stays(1) }, at: '5m' },
  },
]
