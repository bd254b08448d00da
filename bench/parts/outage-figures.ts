/** What is told of an outage, and of which limiters and outages. */

/** What became of a request, on the axis of `machineNowMs`. */
export interface Answer {
  readonly startedMs: number
  /** None where there was no answer yet. */
  readonly answeredMs: number | undefined
  /** Whether Redis has counted it. */
  readonly isShared: boolean
}

/** On the axis of `machineNowMs`. */
export interface Outage {
  readonly startedMs: number
  readonly endedMs: number
  readonly watchedUntilMs: number
}

export interface OutageFigure {
  /** From the outage's beginning to the first answer to a request that came after it. */
  readonly firstMs: number
  /** The longest that a request of the outage has waited, or has waited so far. */
  readonly longestMs: number
  readonly onTimeShare: number
  /** From the outage's end until Redis had counted a request; undefined if it was not seen. */
  readonly sharedAgainMs: number | undefined
  /** How long after its end the outage was watched. */
  readonly watchedMs: number
}

export interface Scenario {
  readonly name: 'killed' | 'stopped' | 'slow'
  readonly title: string
}

export const outageNames = [
  'Tidegate',
  'Tidegate, recommended options',
  'rate-limiter-flexible',
  'rate-limiter-flexible, no offline queue',
  'express-rate-limit',
] as const

export const scenarios: readonly Scenario[] = [
  { name: 'killed', title: 'Redis killed' },
  { name: 'stopped', title: 'Redis stopped' },
  { name: 'slow', title: 'Redis 200 ms away' },
]

/** What Envoy waits for its rate limit service unless told otherwise. */
export const ON_TIME_MS = 20

export function outageFigure(outage: Outage, all: readonly Answer[]): OutageFigure {
  const { startedMs, endedMs, watchedUntilMs } = outage
  const meanwhile = all.filter((each) => each.startedMs >= startedMs && each.startedMs < endedMs)
  const answeredMs = (answer: Answer) => answer.answeredMs ?? watchedUntilMs
  const waitsMs = meanwhile.map((answer) => answeredMs(answer) - answer.startedMs)
  const next = all.find((each) => each.startedMs >= endedMs && each.isShared)
  return {
    firstMs: Math.min(...meanwhile.map(answeredMs)) - startedMs,
    longestMs: Math.max(...waitsMs),
    onTimeShare: waitsMs.filter((ms) => ms <= ON_TIME_MS).length / waitsMs.length,
    sharedAgainMs: next === undefined ? undefined : answeredMs(next) - endedMs,
    watchedMs: watchedUntilMs - endedMs,
  }
}
