import type { Board } from './board.ts'
import { graph } from './panel.ts'

const perSecond = (metric: string, by: string) =>
  `sum by (${by}) (rate(${metric}[$__rate_interval]))`

export const saturation: Board = {
  name: 'saturation',
  title: 'Saturation',
  description: 'How much room processes have: event loop, processor, memory, queues.',
  panels: [
    graph({
      title: 'Event loop: share at work',
      unit: 'percentunit',
      max: 1,
      queries: [
        {
          expr:
            `${perSecond('nodejs_eventloop_active_seconds_total', 'instance')} / ` +
            `(${perSecond('nodejs_eventloop_active_seconds_total', 'instance')} + ` +
            `${perSecond('nodejs_eventloop_idle_seconds_total', 'instance')})`,
          legend: '{{instance}}',
        },
      ],
      alert: 'TidegateEventLoopLag',
    }),
    graph({
      title: 'Event loop lag',
      unit: 's',
      red: 0.05,
      queries: [
        {
          expr: 'max by (instance) (nodejs_eventloop_lag_seconds{percentile="99"})',
          legend: 'p99 {{instance}}',
        },
        { expr: 'max by (instance) (tidegate_overload_delay_seconds)', legend: 'now {{instance}}' },
      ],
      alert: 'TidegateEventLoopLag',
    }),
    graph({
      title: 'Requests refused because of overload',
      unit: 'reqps',
      queries: [
        { expr: perSecond('tidegate_overload_shed_total', 'priority'), legend: '{{priority}}' },
      ],
      alert: 'TidegateOverloaded',
    }),
    graph({
      title: 'Share of requests that is refused, by priority',
      unit: 'percentunit',
      max: 1,
      queries: [
        { expr: 'max by (priority) (tidegate_overload_shed_ratio)', legend: '{{priority}}' },
      ],
      alert: 'TidegateOverloaded',
    }),
    graph({
      title: 'Requests in flight, charges that wait',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (instance) (tidegate_overload_requests)',
          legend: 'in flight {{instance}}',
        },
        {
          expr: 'sum by (instance) (tidegate_store_waiting_charges)',
          legend: 'waiting {{instance}}',
        },
      ],
    }),
    graph({
      title: 'Processors in use',
      unit: 'short',
      queries: [
        { expr: perSecond('process_cpu_seconds_total', 'instance'), legend: '{{instance}}' },
      ],
    }),
    graph({
      title: 'Memory',
      unit: 'bytes',
      queries: [
        {
          expr: 'sum by (instance) (process_resident_memory_bytes)',
          legend: 'resident {{instance}}',
        },
        { expr: 'sum by (instance) (nodejs_heap_used_bytes)', legend: 'heap {{instance}}' },
      ],
    }),
    graph({
      title: 'Age of processes',
      description: 'Time since the start. A line that falls to 0 is a restart.',
      unit: 's',
      queries: [
        { expr: 'time() - max by (instance) (process_start_time_seconds)', legend: '{{instance}}' },
      ],
    }),
    graph({
      title: 'Processes of a node',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (instance, state) (tidegate_workers)',
          legend: '{{instance}} {{state}}',
        },
      ],
      alert: 'TidegateWorkerSilent',
    }),
    graph({
      title: 'Failures that should not happen',
      unit: 'ops',
      queries: [{ expr: perSecond('tidegate_errors_total', 'instance'), legend: '{{instance}}' }],
      alert: 'TidegateErrors',
    }),
    graph({
      title: 'Time of a scrape',
      unit: 's',
      red: 0.02,
      queries: [
        { expr: 'max by (instance) (tidegate_scrape_duration_seconds)', legend: '{{instance}}' },
      ],
    }),
    graph({
      title: 'Names without series of their own',
      unit: 'short',
      queries: [{ expr: 'max by (metric) (tidegate_label_overflows_total)', legend: '{{metric}}' }],
      alert: 'TidegateLabelOverflow',
    }),
    graph({
      title: 'Log lines that were left out',
      unit: 'ops',
      queries: [
        {
          expr: perSecond('tidegate_log_lines_left_out_total', 'sink, reason'),
          legend: '{{sink}} {{reason}}',
        },
      ],
    }),
    graph({
      title: 'Spans',
      unit: 'ops',
      queries: [
        { expr: perSecond('tidegate_spans_exported_total', 'instance'), legend: 'exported' },
        {
          expr: perSecond('tidegate_spans_dropped_total', 'reason'),
          legend: 'dropped: {{reason}}',
        },
      ],
    }),
    graph({
      title: 'Spans that wait to be sent',
      unit: 'short',
      queries: [{ expr: 'sum by (instance) (tidegate_spans_waiting)', legend: '{{instance}}' }],
    }),
  ],
}
