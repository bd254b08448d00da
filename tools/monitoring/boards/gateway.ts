import type { Board } from './board.ts'
import { p99By } from './latency.ts'
import { graph, table } from './panel.ts'

const perSecond = (metric: string, by: string) =>
  `sum by (${by}) (rate(${metric}[$__rate_interval]))`

export const gateway: Board = {
  name: 'gateway',
  title: 'Gateway and upstreams',
  description: 'Responses, connections, and the health of targets.',
  panels: [
    graph({
      title: 'Responses by status',
      unit: 'reqps',
      queries: [{ expr: perSecond('tidegate_gateway_requests_total', 'code'), legend: '{{code}}' }],
    }),
    graph({
      title: 'Responses by route',
      unit: 'reqps',
      queries: [
        { expr: perSecond('tidegate_gateway_requests_total', 'route'), legend: '{{route}}' },
      ],
    }),
    graph({
      title: 'Request p99 by route',
      unit: 's',
      queries: [p99By('route', 'tidegate_gateway_request_duration_seconds')],
    }),
    graph({
      title: 'Upstream p99',
      unit: 's',
      queries: [p99By('upstream', 'tidegate_gateway_upstream_duration_seconds')],
    }),
    graph({
      title: 'Requests by upstream',
      unit: 'reqps',
      queries: [
        {
          expr: perSecond('tidegate_gateway_upstream_duration_seconds_count', 'upstream'),
          legend: '{{upstream}}',
        },
      ],
    }),
    table({
      title: 'Targets',
      unit: 'percentunit',
      queries: [{ expr: 'avg by (upstream, target) (tidegate_gateway_target_up)' }],
      alert: 'TidegateTargetDown',
    }),
    graph({
      title: 'Healthy targets',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (instance, upstream) (tidegate_gateway_target_up)',
          legend: '{{upstream}} {{instance}}',
        },
      ],
      alert: 'TidegateUpstreamDown',
    }),
    graph({
      title: 'Changes of targets',
      unit: 'short',
      queries: [
        {
          expr:
            'sum by (upstream, change) ' +
            '(increase(tidegate_gateway_target_changes_total[$__rate_interval]))',
          legend: '{{upstream}} {{change}}',
        },
      ],
      alert: 'TidegateUpstreamDown',
    }),
    graph({
      title: 'Requests to targets',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (upstream, state) (tidegate_gateway_target_requests)',
          legend: '{{upstream}} {{state}}',
        },
      ],
    }),
    graph({
      title: 'Connections of clients',
      unit: 'short',
      queries: [
        { expr: 'sum by (instance) (tidegate_gateway_connections)', legend: '{{instance}}' },
      ],
    }),
    graph({
      title: 'Connections that were refused',
      unit: 'ops',
      queries: [
        {
          expr: perSecond('tidegate_gateway_connections_refused_total', 'reason'),
          legend: '{{reason}}',
        },
      ],
    }),
    graph({
      title: 'Requests with idempotency keys',
      unit: 'reqps',
      queries: [
        {
          expr: perSecond('tidegate_idempotency_requests_total', 'outcome'),
          legend: '{{outcome}}',
        },
      ],
    }),
    graph({
      title: 'Responses that were kept for idempotency keys',
      unit: 'ops',
      queries: [
        { expr: perSecond('tidegate_idempotency_results_total', 'result'), legend: '{{result}}' },
      ],
    }),
    graph({
      title: 'Requests with a key that run or wait',
      unit: 'short',
      queries: [{ expr: 'sum by (state) (tidegate_idempotency_in_flight)', legend: '{{state}}' }],
    }),
  ],
}
