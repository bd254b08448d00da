/** Requests that are refused, and clients that send very many. */

import { type AlertRule, grows, NUMBER, PERCENT, stays } from './alert-rule.ts'

const rate = (matchers = '', offset = '') =>
  `sum by (job) (rate(tidegate_decisions_total${matchers}[5m]${offset}))`

const denied = rate('{outcome="denied"}')

const deniedYesterday = rate('{outcome="denied"}', ' offset 1d')

const isBusy = `and on (job) ${rate()} > 1`

const admittedSeries =
  'tidegate_decisions_total{job="t",door="gateway",outcome="allowed",by="store"}'
const deniedSeries = 'tidegate_decisions_total{job="t",door="gateway",outcome="denied",by="store"}'

const shares = (allowed: number, refused: number) => ({
  series: { [admittedSeries]: grows(allowed), [deniedSeries]: grows(refused) },
  at: '20m',
})

export const trafficAlerts: readonly AlertRule[] = [
  {
    name: 'TidegateDenialSpike',
    // Without figures of the day before, the absolute number decides.
    expr: `${denied} > 1000\n  unless ${denied} <= 3 * ${deniedYesterday}`,
    for: '1m',
    severity: 'page',
    summary: 'Far more requests are denied than a day before',
    description: `${NUMBER} requests per second of {{ $labels.job }} are denied.`,
    board: 'limits',
    fires: { series: { [deniedSeries]: '0+60000x1500 90000000+300000x60' }, at: '1540m' },
    quiet: { series: { [deniedSeries]: '0+120000x1560' }, at: '1540m' },
  },
  {
    name: 'TidegateDenialShare',
    expr: `${denied} / ${rate()} > 0.2\n  ${isBusy}`,
    for: '5m',
    severity: 'ticket',
    summary: 'More than 20 % of the requests are denied',
    description: `${PERCENT} of the requests of {{ $labels.job }} are denied.`,
    board: 'limits',
    fires: shares(700, 300),
    quiet: shares(900, 100),
  },
  {
    name: 'TidegateDenialShareHigh',
    expr: `${denied} / ${rate()} > 0.5\n  ${isBusy}`,
    for: '5m',
    severity: 'page',
    summary: 'More than half of the requests are denied',
    description: `${PERCENT} of the requests of {{ $labels.job }} are denied.`,
    board: 'limits',
    fires: shares(300, 700),
    // Nearly all are denied, of one request in 2 seconds.
    quiet: shares(1, 29),
  },
  {
    name: 'TidegateHotKey',
    expr: 'max by (job) (tidegate_hottest_key_calls) > 1000',
    for: '2m',
    severity: 'info',
    summary: 'One key has more than 1,000 calls per second',
    description: `${NUMBER} calls per second. The top list of the admin API names the key.`,
    board: 'limits',
    fires: { series: { 'tidegate_hottest_key_calls{job="t"}': stays(4_000) }, at: '5m' },
    quiet: { series: { 'tidegate_hottest_key_calls{job="t"}': stays(800) }, at: '5m' },
  },
  {
    name: 'TidegateProbeWrong',
    expr:
      'sum by (job, door, result) ' +
      '(increase(tidegate_probe_decisions_total{result!="right"}[15m])) > 0',
    severity: 'ticket',
    summary: 'A limit of 10 did not admit exactly 10 requests',
    description: `${NUMBER} decisions of the door {{ $labels.door }} were {{ $labels.result }}.`,
    board: 'slo',
    fires: {
      series: { 'tidegate_probe_decisions_total{job="t",door="rls",result="over"}': grows(1) },
      at: '20m',
    },
    quiet: {
      series: { 'tidegate_probe_decisions_total{job="t",door="rls",result="right"}': grows(30) },
      at: '20m',
    },
  },
]
