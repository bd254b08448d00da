/** Regions that do not reach one another. */

import { type AlertRule, grows, PERCENT, stays } from './alert-rule.ts'

const up = 'tidegate_region_peer_up{job="t",instance="a",to="us"}'
const decided = (by: string) => `tidegate_region_decisions_total{job="t",limit="a",by="${by}"}`

export const regionAlerts: readonly AlertRule[] = [
  {
    name: 'TidegateRegionDown',
    expr: 'min by (job, to) (tidegate_region_peer_up) == 0',
    for: '1m',
    severity: 'ticket',
    summary: 'A region does not answer another one',
    description: '{{ $labels.to }} does not answer nodes of {{ $labels.job }}.',
    board: 'regions',
    fires: { series: { [up]: stays(0) }, at: '10m' },
    quiet: { series: { [up]: stays(1) }, at: '10m' },
  },
  {
    name: 'TidegateRegionCutOff',
    expr:
      'sum by (job, limit) (rate(tidegate_region_decisions_total{by="cut-off"}[5m])) ' +
      '/ sum by (job, limit) (rate(tidegate_region_decisions_total[5m])) > 0.01',
    for: '2m',
    severity: 'page',
    summary: 'Decisions are made without the home of their keys',
    description: `${PERCENT} of the decisions of {{ $labels.limit }} in {{ $labels.job }}.`,
    board: 'regions',
    fires: { series: { [decided('cut-off')]: grows(60), [decided('pool')]: grows(60) }, at: '10m' },
    quiet: { series: { [decided('cut-off')]: stays(0), [decided('pool')]: grows(60) }, at: '10m' },
  },
]
