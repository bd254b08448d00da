import type { Board } from './board.ts'
import { graph } from './panel.ts'

const rate = (metric: string) => `rate(${metric}[$__rate_interval])`

export const regions: Board = {
  name: 'regions',
  title: 'Regions',
  description: 'Whether regions reach one another, and how limits that they share are decided.',
  panels: [
    graph({
      title: 'Other regions that answer',
      description: 'The share of nodes that another region answers.',
      unit: 'percentunit',
      redBelow: 1,
      max: 1,
      queries: [{ expr: 'avg by (to) (tidegate_region_peer_up)', legend: '{{to}}' }],
      alert: 'TidegateRegionDown',
    }),
    graph({
      title: 'Decisions about shared limits, by how they were made',
      unit: 'ops',
      queries: [
        {
          expr: `sum by (mode, by) (${rate('tidegate_region_decisions_total')})`,
          legend: '{{mode}}: {{by}}',
        },
      ],
      alert: 'TidegateRegionCutOff',
    }),
    graph({
      title: 'Round trip',
      unit: 's',
      queries: [{ expr: 'max by (to) (tidegate_region_round_trip_seconds)', legend: '{{to}}' }],
    }),
    graph({
      title: 'Offset of clocks',
      unit: 's',
      queries: [{ expr: 'max by (to) (tidegate_region_clock_offset_seconds)', legend: '{{to}}' }],
    }),
    graph({
      title: 'Bytes between regions, per second',
      unit: 'bytes',
      queries: [
        {
          expr: `sum by (to) (${rate('tidegate_region_sent_bytes_total')})`,
          legend: 'to {{to}}',
        },
        {
          expr: `sum by (to) (${rate('tidegate_region_received_bytes_total')})`,
          legend: 'from {{to}}',
        },
      ],
    }),
    graph({
      title: 'Messages, and those that were refused',
      unit: 'ops',
      queries: [
        {
          expr: `sum by (to) (${rate('tidegate_region_messages_total')})`,
          legend: 'to {{to}}',
        },
        {
          expr: `sum by (reason) (${rate('tidegate_region_refused_total')})`,
          legend: 'refused: {{reason}}',
        },
      ],
    }),
    graph({
      title: 'Leased units',
      unit: 'short',
      queries: [
        { expr: 'sum(tidegate_region_leased_units)', legend: 'units' },
        { expr: 'sum(tidegate_region_leased_keys)', legend: 'keys' },
      ],
    }),
    graph({
      title: 'Exchange of counts',
      description: 'Exchangers should be one for each region.',
      unit: 'short',
      queries: [
        { expr: 'sum(tidegate_region_exchanger)', legend: 'exchangers' },
        { expr: 'sum(tidegate_region_exchanged_keys)', legend: 'keys' },
        { expr: 'sum by (to) (1 - tidegate_region_counts_peer)', legend: 'wait not for {{to}}' },
        {
          expr: `sum(${rate('tidegate_region_exchange_failures_total')})`,
          legend: 'failures per second',
        },
      ],
    }),
  ],
}
