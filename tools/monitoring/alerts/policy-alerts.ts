/** The policy, its source, and changes of operators. */

import { type AlertRule, grows, NUMBER, SECONDS, stays, steps } from './alert-rule.ts'

const denied = 'tidegate_admin_attempts_total{job="t",result="denied"}'
const contact = 'tidegate_source_last_contact_timestamp_seconds{job="t",instance="a"}'

const versions = (one: string, other: string) => ({
  series: {
    [`tidegate_policy_info{job="t",instance="a",version="${one}"}`]: stays(1),
    [`tidegate_policy_info{job="t",instance="b",version="${other}"}`]: stays(1),
  },
  at: '15m',
})

export const policyAlerts: readonly AlertRule[] = [
  {
    name: 'TidegatePolicyRefused',
    expr: 'sum by (job) (increase(tidegate_policy_loads_total{result="refused"}[10m])) > 0',
    severity: 'ticket',
    summary: 'A policy was refused, and the one before stays live',
    description: `${NUMBER} times in 10 minutes, by {{ $labels.job }}.`,
    board: 'policy',
    fires: {
      series: { 'tidegate_policy_loads_total{job="t",result="refused"}': steps(1) },
      at: '25m',
    },
    quiet: {
      series: { 'tidegate_policy_loads_total{job="t",result="applied"}': steps(1) },
      at: '25m',
    },
  },
  {
    name: 'TidegatePolicySplit',
    expr: 'count by (job) (count by (job, version) (tidegate_policy_info)) > 1',
    for: '5m',
    severity: 'ticket',
    summary: 'Nodes have different policies',
    description: `${NUMBER} versions are live in {{ $labels.job }}.`,
    board: 'policy',
    fires: versions('41', '42'),
    quiet: versions('42', '42'),
  },
  {
    name: 'TidegateSourceStale',
    expr:
      'time() - max by (job, instance) ' +
      '(tidegate_source_last_contact_timestamp_seconds) > 5 * 60',
    for: '1m',
    severity: 'ticket',
    summary: 'The source of policies has not answered for 5 minutes',
    description: `{{ $labels.instance }}: the last contact was ${SECONDS} ago.`,
    board: 'policy',
    fires: { series: { [contact]: stays(0) }, at: '20m' },
    quiet: { series: { [contact]: '0+60x360' }, at: '20m' },
  },
  {
    name: 'TidegateLimitingOff',
    expr: 'max by (job, state) (tidegate_switch_state{state!="on"}) > 0',
    for: '15m',
    severity: 'page',
    summary: 'Limits have been switched to shadow or off for 15 minutes',
    description: 'The state of {{ $labels.job }} is {{ $labels.state }}.',
    board: 'policy',
    fires: { series: { 'tidegate_switch_state{job="t",state="off"}': stays(1) }, at: '20m' },
    quiet: { series: { 'tidegate_switch_state{job="t",state="off"}': '1+0x10 0+0x20' }, at: '20m' },
  },
  {
    name: 'TidegateEntryProblems',
    expr: 'max by (job, instance) (tidegate_entry_problems) > 0',
    for: '5m',
    severity: 'ticket',
    summary: 'Overrides or blocks cannot be used',
    description: `${NUMBER} entries are left out by {{ $labels.instance }}.`,
    board: 'policy',
    fires: { series: { 'tidegate_entry_problems{job="t",instance="a"}': stays(2) }, at: '10m' },
    quiet: { series: { 'tidegate_entry_problems{job="t",instance="a"}': stays(0) }, at: '10m' },
  },
  {
    name: 'TidegateLogInFailures',
    // A process records at most 10 failed log-ins a minute.
    expr: 'sum by (job) (increase(tidegate_admin_attempts_total{result="denied"}[5m])) > 8',
    severity: 'ticket',
    summary: 'Many attempts on the admin API are denied',
    description: `${NUMBER} in 5 minutes, for a wrong token or a missing role.`,
    board: 'policy',
    fires: { series: { [denied]: grows(6) }, at: '10m' },
    quiet: { series: { [denied]: grows(1) }, at: '10m' },
  },
]
