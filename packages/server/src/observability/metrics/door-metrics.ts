/**
 * Decisions as the doors of a service make them: gateway, decision API and rate limit service. A
 * decision adds to a few numbers, which takes about 50 ns; the page is made when it is asked for.
 *
 * Limits are the only names from outside, and they come from the policy. No label has a text that a
 * client can choose.
 */

import type { Decision } from 'tidegate'
import {
  type Counter,
  counterFamily,
  type Histogram,
  histogramFamily,
  type MetricFamily,
} from 'tidegate/metrics'
import type { Outcome, RequestOutcome } from '../../limits/outcome.ts'

export const doors = ['gateway', 'decision_api', 'rls'] as const

export type Door = (typeof doors)[number]

/** How a decision was made; `none` is for requests that fall under no limit. */
const ways = [
  ...['none', 'store', 'memory', 'lease', 'denial_cache'],
  ...['open', 'local', 'closed', 'shed', 'off'],
] as const

type Way = (typeof ways)[number]

type LimitOutcome = 'allowed' | 'denied' | 'unavailable'

/** Every threshold of an alert is a bound: 5, 10, 15 and 20 ms. */
export const decisionBounds = [
  ...[0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.05, 0.1],
] as const

const ratioBounds = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1] as const

/**
 * Limits with series of their own, so that a page has at most about 2,500 series. Those of a larger
 * policy are counted as `other`.
 */
const LIMITS_MAX = 60

/**
 * One decision of this many is timed and its share of the limit observed; it counts for all. To
 * read the clock twice takes longer than to count. A power of two.
 */
const SAMPLE_EVERY = 16

/** Stands for the start of a decision that is not timed. */
const NOT_TIMED = -1

export const outcomeLabels: Readonly<Record<Outcome, string>> = {
  admitted: 'allowed',
  denied: 'denied',
  unavailable: 'unavailable',
  'missing-key': 'unauthenticated',
  blocked: 'blocked',
}

/** The series that all doors share. */
export class DecisionMetrics {
  readonly decisions = counterFamily({
    name: 'tidegate_decisions_total',
    help: 'Requests by outcome, and by how the decision was made.',
    labels: ['door', 'outcome', 'by'],
  })
  readonly durations = histogramFamily(
    {
      name: 'tidegate_decision_duration_seconds',
      help: 'Time of a decision. Without a wait, one in 16 is timed and counts for 16.',
      labels: ['door', 'by'],
    },
    decisionBounds,
  )
  readonly limits = counterFamily({
    name: 'tidegate_limit_decisions_total',
    help: 'Decisions of each limit; in shadow mode nothing is refused.',
    labels: ['door', 'limit', 'mode', 'outcome'],
    open: { label: 'limit', namesMax: LIMITS_MAX },
  })
  readonly units = counterFamily({
    name: 'tidegate_limit_units_total',
    help: 'Units that each limit has granted.',
    labels: ['limit'],
    open: { label: 'limit', namesMax: LIMITS_MAX },
  })
  readonly used = histogramFamily(
    {
      name: 'tidegate_limit_used_ratio',
      help: 'Share of the limit in use after a decision; one in 16 is observed and counts for 16.',
      labels: ['limit'],
      open: { label: 'limit', namesMax: LIMITS_MAX },
    },
    ratioBounds,
  )
  readonly #doors: DoorMetrics[] = []

  /** `isShared` is true if the counters are in a store outside of this process. */
  door(door: Door, isShared: boolean): DoorMetrics {
    const made = new DoorMetrics(this, door, isShared)
    this.#doors.push(made)
    return made
  }

  /** Forgets the series of limits that the policy no longer has. */
  keepLimits(names: readonly string[]): void {
    const kept = new Set(names)
    for (const family of [this.limits, this.units, this.used]) family.keepNames(kept)
    for (const door of this.#doors) door.forgetLimits()
  }

  get families() {
    return [this.decisions, this.durations, this.limits, this.units, this.used]
  }

  read(): readonly MetricFamily[] {
    return this.families.map((family) => family.read())
  }
}

/** The cells of one limit in one mode. */
interface LimitCells {
  readonly allowed: Counter
  readonly denied: Counter
  readonly unavailable: Counter
  readonly units: Counter
  readonly used: Histogram
  count: number
}

/** The cells of one outcome. */
type WayCells = Record<Way, Counter | undefined>

export class DoorMetrics {
  readonly #all: DecisionMetrics
  readonly #door: Door
  readonly #stored: Way
  readonly #requests: Record<string, WayCells> = {}
  /** Requests that the store, or memory, has admitted. */
  #admitted: Counter | undefined
  readonly #times: Partial<Record<Way, Histogram>> = {}
  readonly #enforced = new Map<string, LimitCells>()
  readonly #shadowed = new Map<string, LimitCells>()
  #count = 0

  constructor(all: DecisionMetrics, door: Door, isShared: boolean) {
    this.#all = all
    this.#door = door
    this.#stored = isShared ? 'store' : 'memory'
  }

  /** To be called when a decision begins; to be handed to `decided`. */
  startMs(): number {
    this.#count += 1
    return (this.#count & (SAMPLE_EVERY - 1)) === 0 ? performance.now() : NOT_TIMED
  }

  /** Counts a decision that did not wait. `traceId` is that of a sampled request. */
  decided(found: RequestOutcome, startMs: number, traceId?: string): void {
    const way = this.#decided(found)
    if (startMs === NOT_TIMED) return
    this.#timesOf(way).observe((performance.now() - startMs) / 1_000, SAMPLE_EVERY, traceId)
  }

  /** Counts a decision that took `tookMs`. `traceId` is that of a sampled request. */
  decidedAfter(found: RequestOutcome, tookMs: number, traceId?: string): void {
    this.#timesOf(this.#decided(found)).observe(tookMs / 1_000, 1, traceId)
  }

  /** Counts a call whose limits were counted one by one, by `limitDecided`. */
  called(outcome: Outcome, decision: Decision | undefined, tookMs: number, traceId?: string): void {
    const way = decision === undefined ? 'none' : this.#wayOf(decision)
    this.#requestsOf(outcome, way).value += 1
    this.#timesOf(way).observe(tookMs / 1_000, 1, traceId)
  }

  limitDecided(name: string, decision: Decision, isShadow: boolean): void {
    const known = isShadow ? this.#shadowed : this.#enforced
    const cells = known.get(name) ?? this.#limitOf(name, isShadow, known)
    const { allowed, degraded, granted } = decision
    if (allowed) {
      cells.allowed.value += 1
      cells.units.value += granted
    } else cells[refusalOf(decision)].value += 1
    cells.count += 1
    if ((cells.count & (SAMPLE_EVERY - 1)) === 0 && degraded === null) {
      cells.used.observe(usedRatio(decision), SAMPLE_EVERY)
    }
  }

  forgetLimits(): void {
    this.#enforced.clear()
    this.#shadowed.clear()
  }

  #decided(found: RequestOutcome): Way {
    const { outcome, evaluation, shadowed, shadowing } = found
    if (shadowing !== undefined) void shadowing.then(() => this.#shadows(found))
    else if (shadowed.length > 0) this.#shadows(found)
    const way = evaluation === undefined ? 'none' : this.#wayOf(evaluation.decision)
    // Most requests are admitted, and the look-up would take as long as the rest.
    if (outcome === 'admitted' && way === this.#stored) {
      this.#admitted ??= this.#requestsOf(outcome, way)
      this.#admitted.value += 1
    } else this.#requestsOf(outcome, way).value += 1
    if (evaluation === undefined) return way
    for (const { name, decision } of evaluation.applied) this.limitDecided(name, decision, false)
    return way
  }

  #shadows({ shadowed }: RequestOutcome): void {
    for (const { name, decision } of shadowed) this.limitDecided(name, decision, true)
  }

  #wayOf({ source, degraded }: Decision): Way {
    if (degraded !== null && degraded.reason !== 'unconfirmed') {
      return degraded.reason === 'disabled' ? 'off' : degraded.mode
    }
    if (source === 'cache') return 'denial_cache'
    return source === 'lease' ? 'lease' : this.#stored
  }

  #requestsOf(outcome: Outcome, way: Way): Counter {
    const known = this.#requests[outcome]?.[way]
    if (known !== undefined) return known
    const made = this.#all.decisions.of(this.#door, outcomeLabels[outcome], way)
    const cells = this.#requests[outcome] ?? (Object.fromEntries(ways.map(unmade)) as WayCells)
    cells[way] = made
    this.#requests[outcome] = cells
    return made
  }

  #timesOf(way: Way): Histogram {
    const known = this.#times[way]
    if (known !== undefined) return known
    const made = this.#all.durations.of(this.#door, way)
    this.#times[way] = made
    return made
  }

  #limitOf(name: string, isShadow: boolean, known: Map<string, LimitCells>): LimitCells {
    const { limits, units, used } = this.#all
    const mode = isShadow ? 'shadow' : 'enforce'
    const of = (outcome: LimitOutcome) => limits.of(this.#door, name, mode, outcome)
    const cells = {
      allowed: of('allowed'),
      denied: of('denied'),
      unavailable: of('unavailable'),
      units: units.of(name),
      used: used.of(name),
      count: 0,
    }
    known.set(name, cells)
    return cells
  }
}

const unmade = (way: Way) => [way, undefined] as const

function refusalOf({ degraded }: Decision): 'denied' | 'unavailable' {
  return degraded?.mode === 'closed' || degraded?.mode === 'shed' ? 'unavailable' : 'denied'
}

function usedRatio({ limit, remaining }: Decision): number {
  return limit > 0 ? Math.min(1, Math.max(0, 1 - remaining / limit)) : 1
}
