/**
 * Service level objectives over 30 days, and the rules that record how fast each one is missed. The
 * rates of 5 minutes are recorded once; longer windows are averages of them, which is cheap also
 * for 30 days.
 */

export interface Objective {
  readonly slo: 'availability' | 'latency' | 'accuracy'
  readonly title: string
  readonly meaning: string
  /** The share of good events that is promised. */
  readonly target: number
  /** Events of all kinds, and the bad ones, per second and job. */
  readonly events: string
  readonly bad: string
  /** Events per second below which no alert fires: one failure of ten requests is not a trend. */
  readonly eventsMin: number
}

export interface RecordingRule {
  readonly record: string
  readonly expr: string
  readonly labels: Readonly<Record<string, string>>
}

/** How a decision was made, if it was made without the store. */
export const DEGRADED = 'by=~"open|local|closed|shed"'

const perJob = (series: string) => `sum by (job) (rate(${series}[5m]))`

/** A series that does not exist yet counts as 0. */
const orZero = (query: string, like: string) => `(${query} or 0 * ${like})`

const decisions = perJob('tidegate_decisions_total')
const shed = perJob('tidegate_overload_shed_total')
const timed = perJob('tidegate_decision_duration_seconds_count')
const inTime = perJob('tidegate_decision_duration_seconds_bucket{le="0.005"}')
const probed = perJob('tidegate_probe_decisions_total')

export const objectives: readonly Objective[] = [
  {
    slo: 'availability',
    title: 'Availability',
    meaning: 'Requests that were decided with the store, and not shed.',
    target: 0.999,
    events: `${decisions} + ${orZero(shed, decisions)}`,
    bad:
      `${orZero(perJob(`tidegate_decisions_total{${DEGRADED}}`), decisions)}` +
      ` + ${orZero(shed, decisions)}`,
    eventsMin: 1,
  },
  {
    slo: 'latency',
    title: 'Latency',
    meaning: 'Decisions that took at most 5 ms.',
    target: 0.99,
    events: timed,
    bad: `${timed} - ${inTime}`,
    eventsMin: 1,
  },
  {
    slo: 'accuracy',
    title: 'Accuracy',
    meaning: 'Decisions of the prober that were right: 10 of 30 for a limit of 10.',
    target: 0.999,
    events: probed,
    bad: orZero(perJob('tidegate_probe_decisions_total{result!="right"}'), probed),
    eventsMin: 0.1,
  },
]

export const windows = ['5m', '30m', '1h', '2h', '6h', '1d', '3d', '30d'] as const

export type Window = (typeof windows)[number]

/** The share of bad events in a window, per job and objective. */
export const ratio = (window: Window) => `job:tidegate_slo_errors:ratio_rate${window}`

export const EVENTS = 'job:tidegate_slo_events:rate5m'

const BAD = 'job:tidegate_slo_bad:rate5m'

export function recordingRules(): readonly RecordingRule[] {
  return objectives.flatMap(({ slo, events, bad }) => {
    const labels = { slo }
    const of = (name: string, window: Window) => `avg_over_time(${name}{slo="${slo}"}[${window}])`
    return [
      { record: EVENTS, expr: events, labels },
      { record: BAD, expr: bad, labels },
      ...windows.map((window) => ({
        record: ratio(window),
        expr: `${of(BAD, window)} / (${of(EVENTS, window)} > 0)`,
        labels,
      })),
    ]
  })
}
