/** The figures of an outage, and the names of the limiters and outages. */

/** The result of a request; times are on the axis of `machineNowMs`. */
export interface RequestResult {
  readonly startedMs: number
  /** Undefined if there is no response yet. */
  readonly respondedMs: number | undefined
  /** True if Redis has counted the request. */
  readonly isShared: boolean
}

/** Times are on the axis of `machineNowMs`. */
export interface Outage {
  readonly startedMs: number
  readonly endedMs: number
  readonly watchedUntilMs: number
}

export interface OutageFigure {
  /** From the start of the outage to the first response to a request that started later. */
  readonly firstMs: number
  /** The longest wait of a request of the outage; without a response, the wait so far. */
  readonly longestMs: number
  readonly onTimeShare: number
  /** From the outage's end until Redis had counted a request; undefined if it was not seen. */
  readonly sharedAgainMs: number | undefined
  /** How long the limiters were watched after the end of the outage. */
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

/** Envoy's default timeout for its rate limit service. */
export const ON_TIME_MS = 20

export function outageFigure(outage: Outage, all: readonly RequestResult[]): OutageFigure {
  const { startedMs, endedMs, watchedUntilMs } = outage
  const meanwhile = all.filter((each) => each.startedMs >= startedMs && each.startedMs < endedMs)
  const endMs = (result: RequestResult) => result.respondedMs ?? watchedUntilMs
  const waitsMs = meanwhile.map((result) => endMs(result) - result.startedMs)
  const next = all.find((each) => each.startedMs >= endedMs && each.isShared)
  return {
    firstMs: Math.min(...meanwhile.map(endMs)) - startedMs,
    longestMs: Math.max(...waitsMs),
    onTimeShare: waitsMs.filter((ms) => ms <= ON_TIME_MS).length / waitsMs.length,
    sharedAgainMs: next === undefined ? undefined : endMs(next) - endedMs,
    watchedMs: watchedUntilMs - endedMs,
  }
}
