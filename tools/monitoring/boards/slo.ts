import { type Objective, objectives, ratio, type Window } from '../slos.ts'
import type { Board } from './board.ts'
import { graph, type Panel, row, stat } from './panel.ts'

const errors = (slo: string, window: Window) => `max(${ratio(window)}{job=~"$job",slo="${slo}"})`

export const slo: Board = {
  name: 'slo',
  title: 'Objectives',
  description: 'Objectives over 30 days: what is left of the error budget, and how fast it goes.',
  from: 'now-7d',
  panels: [
    ...objectives.flatMap(panelsOf),
    graph({
      title: 'Prober: decisions by result',
      unit: 'ops',
      queries: [
        {
          expr: 'sum by (door, result) (rate(tidegate_probe_decisions_total[$__rate_interval]))',
          legend: '{{door}} {{result}}',
        },
      ],
      alert: 'TidegateProbeWrong',
    }),
    graph({
      title: 'Prober: last round',
      description: 'Time since the last round of each door was completed.',
      unit: 's',
      queries: [
        {
          expr: 'time() - max by (door) (tidegate_probe_last_round_timestamp_seconds)',
          legend: '{{door}}',
        },
      ],
    }),
  ],
}

function panelsOf({ slo: name, title, meaning, target }: Objective): readonly Panel[] {
  const budget = Number((1 - target).toPrecision(3))
  const goal = `${Number((target * 100).toPrecision(4))} %`
  return [
    row(`${title}: ${goal}`),
    stat({
      title: `${title}, 30 days`,
      description: `${meaning} The objective is ${goal}.`,
      unit: 'percentunit',
      width: 6,
      redBelow: target,
      queries: [{ expr: `1 - ${errors(name, '30d')}` }],
      alert: `Tidegate${title}BurnSlow`,
    }),
    stat({
      title: `${title}: budget left`,
      description: 'Share of the errors of 30 days that may still happen.',
      unit: 'percentunit',
      width: 6,
      redBelow: 0,
      queries: [{ expr: `1 - ${errors(name, '30d')} / ${budget}` }],
      alert: `Tidegate${title}BurnSlow`,
    }),
    graph({
      title: `${title}: burn rate`,
      description: 'At 1, the budget lasts for 30 days. A page at 14.4 in 1 h, or at 6 in 6 h.',
      unit: 'short',
      red: 14.4,
      queries: (['5m', '1h', '6h', '3d'] as const).map((window) => ({
        expr: `${errors(name, window)} / ${budget}`,
        legend: window,
      })),
      alert: `Tidegate${title}BurnFast`,
    }),
  ]
}
