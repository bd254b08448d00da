import type { Board } from './board.ts'
import { graph, table } from './panel.ts'

export const policy: Board = {
  name: 'policy',
  title: 'Policy and operators',
  description: 'Which policy is live, whether its source answers, and changes of operators.',
  panels: [
    table({
      title: 'Live versions',
      unit: 'none',
      queries: [{ expr: 'sum by (instance, version) (tidegate_policy_info)' }],
      alert: 'TidegatePolicySplit',
    }),
    table({
      title: 'Live since',
      unit: 'dateTimeAsIso',
      queries: [{ expr: 'max by (instance) (tidegate_policy_loaded_timestamp_seconds) * 1000' }],
    }),
    graph({
      title: 'Policies that were applied or refused',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (result) (increase(tidegate_policy_loads_total[$__rate_interval]))',
          legend: '{{result}}',
        },
      ],
      alert: 'TidegatePolicyRefused',
    }),
    graph({
      title: 'Limits of the policy',
      unit: 'short',
      queries: [{ expr: 'max by (instance) (tidegate_policy_limits)', legend: '{{instance}}' }],
    }),
    graph({
      title: 'Source: time since the last contact',
      unit: 's',
      red: 300,
      queries: [
        {
          expr: 'time() - max by (instance) (tidegate_source_last_contact_timestamp_seconds)',
          legend: '{{instance}}',
        },
      ],
      alert: 'TidegateSourceStale',
    }),
    graph({
      title: 'Source: connected, and disconnects',
      unit: 'short',
      queries: [
        { expr: 'sum(tidegate_source_connected)', legend: 'connected nodes' },
        {
          expr: 'sum(increase(tidegate_source_disconnects_total[$__rate_interval]))',
          legend: 'disconnects',
        },
      ],
      alert: 'TidegateSourceStale',
    }),
    graph({
      title: 'Switch',
      description: 'Nodes with each state of the switch for limits.',
      unit: 'short',
      queries: [{ expr: 'sum by (state) (tidegate_switch_state)', legend: '{{state}}' }],
      alert: 'TidegateLimitingOff',
    }),
    graph({
      title: 'Attempts of operators',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (result) (increase(tidegate_admin_attempts_total[$__rate_interval]))',
          legend: '{{result}}',
        },
      ],
      alert: 'TidegateLogInFailures',
    }),
    graph({
      title: 'Overrides and blocks that cannot be used',
      unit: 'short',
      queries: [{ expr: 'max by (instance) (tidegate_entry_problems)', legend: '{{instance}}' }],
      alert: 'TidegateEntryProblems',
    }),
  ],
}
