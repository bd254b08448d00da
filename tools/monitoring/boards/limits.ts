import type { Board } from './board.ts'
import { graph, heatmap, stat, table, text } from './panel.ts'

const perSecond = (metric: string, by: string) =>
  `sum by (${by}) (rate(${metric}[$__rate_interval]))`

const TOP = `Metrics have no series per client, so that no client can fill Prometheus. The top lists
of a node name the keys that ask most and are refused most in the last 5 to 10 minutes:

\`\`\`sh
curl -s 'http://127.0.0.1:8083/v1/top?by=refused' -H "Authorization: Bearer $TIDEGATE_TOKEN"
\`\`\`

Then \`tidegate counter show\`, \`tidegate override set\` or \`tidegate block\`: see the runbook.`

export const limits: Board = {
  name: 'limits',
  title: 'Limits, hot keys and top clients',
  description: 'Which limit refuses how much, and how close clients are to their limits.',
  panels: [
    graph({
      title: 'Denied by limit',
      unit: 'reqps',
      queries: [
        {
          expr: perSecond(
            'tidegate_limit_decisions_total{outcome="denied",mode="enforce"}',
            'limit',
          ),
          legend: '{{limit}}',
        },
      ],
      alert: 'TidegateDenialShare',
    }),
    graph({
      title: 'Would be denied by limits in shadow mode',
      unit: 'reqps',
      queries: [
        {
          expr: perSecond(
            'tidegate_limit_decisions_total{outcome="denied",mode="shadow"}',
            'limit',
          ),
          legend: '{{limit}}',
        },
      ],
    }),
    graph({
      title: 'Granted units by limit',
      unit: 'ops',
      queries: [{ expr: perSecond('tidegate_limit_units_total', 'limit'), legend: '{{limit}}' }],
    }),
    table({
      title: 'Limits by denials',
      description: 'Denials per second of each limit and door, the highest first.',
      unit: 'reqps',
      queries: [
        {
          expr: `topk(20, ${perSecond(
            'tidegate_limit_decisions_total{outcome="denied"}',
            'limit, door, mode',
          )})`,
        },
      ],
      alert: 'TidegateDenialShare',
    }),
    heatmap({
      title: 'Used share of limits',
      unit: 'percentunit',
      queries: [
        {
          expr: 'sum by (le) (increase(tidegate_limit_used_ratio_bucket[$__rate_interval]))',
          legend: '{{le}}',
        },
      ],
    }),
    graph({
      title: 'Decisions above 90 % of a limit',
      description: 'Share of the decisions after which more than 90 % of the limit is used.',
      unit: 'percentunit',
      max: 1,
      queries: [
        {
          expr:
            `1 - ${perSecond('tidegate_limit_used_ratio_bucket{le="0.9"}', 'limit')} / ` +
            perSecond('tidegate_limit_used_ratio_count', 'limit'),
          legend: '{{limit}}',
        },
      ],
    }),
    graph({
      title: 'Calls of the most used key',
      unit: 'reqps',
      red: 1_000,
      queries: [{ expr: 'max by (instance) (tidegate_hottest_key_calls)', legend: '{{instance}}' }],
      alert: 'TidegateHotKey',
    }),
    graph({
      title: 'Reports of hot keys',
      unit: 'ops',
      queries: [
        { expr: perSecond('tidegate_hot_key_reports_total', 'limit'), legend: '{{limit}}' },
      ],
      alert: 'TidegateHotKey',
    }),
    stat({
      title: 'Overrides',
      unit: 'short',
      width: 12,
      height: 4,
      queries: [{ expr: 'max(tidegate_overrides)' }],
    }),
    stat({
      title: 'Blocks',
      unit: 'short',
      width: 12,
      height: 4,
      queries: [{ expr: 'max(tidegate_blocks)' }],
    }),
    text('Top clients', TOP, 7),
  ],
}
