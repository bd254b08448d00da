/**
 * The error budget of 30 days is spent too fast. A long window shows that it matters, a short one
 * that it still goes on. https://sre.google/workbook/alerting-on-slos/
 */

import { EVENTS, type Objective, objectives, ratio, type Window } from '../slos.ts'
import { type AlertCase, type AlertRule, grows, PERCENT } from './alert-rule.ts'

/** How many times faster than allowed, over which two windows. */
const burnRates = {
  Fast: [
    [14.4, '1h', '5m'],
    [6, '6h', '30m'],
  ],
  Slow: [
    [3, '1d', '2h'],
    [1, '3d', '6h'],
  ],
} as const satisfies Record<string, readonly (readonly [number, Window, Window])[]>

/** Events per minute of the unit tests. */
const EVENTS_PER_MINUTE = 10_000

export const burnAlerts: readonly AlertRule[] = objectives.flatMap((objective) => [
  burnAlert(objective, 'Fast'),
  burnAlert(objective, 'Slow'),
])

function burnAlert(objective: Objective, speed: keyof typeof burnRates): AlertRule {
  const { slo, title, target, eventsMin } = objective
  const budget = 1 - target
  const isOver = (window: Window, rate: number) =>
    `${ratio(window)}{slo="${slo}"} > ${(rate * budget).toPrecision(3)}`
  const pairs = burnRates[speed].map(
    ([rate, long, short]) => `(${isOver(long, rate)} and ${isOver(short, rate)})`,
  )
  const isFast = speed === 'Fast'
  const fastest = burnRates[speed][0][0] * budget
  const slowest = burnRates[speed][1][0] * budget
  return {
    name: `Tidegate${title}Burn${speed}`,
    expr:
      `(${pairs.join('\n  or ')})\n` +
      `  and on (job, slo) avg_over_time(${EVENTS}{slo="${slo}"}[1h]) > ${eventsMin}`,
    severity: isFast ? 'page' : 'ticket',
    summary: `The error budget of ${slo} is spent ${isFast ? 'within days' : 'before its time'}`,
    description:
      `${PERCENT} of the events of {{ $labels.job }} miss the objective of ` +
      `${Number((target * 100).toPrecision(4))} %.`,
    board: 'slo',
    fires: caseOf(slo, Math.min(0.9, fastest * 1.5)),
    quiet: caseOf(slo, slowest / 2),
  }
}

function caseOf(slo: Objective['slo'], badShare: number): AlertCase {
  const bad = Math.round(EVENTS_PER_MINUTE * badShare)
  const good = EVENTS_PER_MINUTE - bad
  const seriesOf = {
    availability: {
      'tidegate_decisions_total{job="t",door="gateway",outcome="allowed",by="store"}': grows(good),
      'tidegate_decisions_total{job="t",door="gateway",outcome="allowed",by="open"}': grows(bad),
    },
    latency: {
      'tidegate_decision_duration_seconds_bucket{job="t",door="rls",by="store",le="0.005"}':
        grows(good),
      'tidegate_decision_duration_seconds_count{job="t",door="rls",by="store"}': grows(good + bad),
    },
    accuracy: {
      'tidegate_probe_decisions_total{job="t",door="rls",result="right"}': grows(good),
      'tidegate_probe_decisions_total{job="t",door="rls",result="over"}': grows(bad),
    },
  }
  return { series: seriesOf[slo], at: '2h' }
}
