/**
 * Decisions of a limiter, by limit. One decision in 16 is timed, and counts for all 16: to read the
 * clock twice would take longer than everything else that is counted.
 */

import { steadyClock } from '../clock.ts'
import type { Decision, DecisionSource } from '../decision.ts'
import {
  type Counter,
  counterFamily,
  type Histogram,
  histogramFamily,
  type MetricFamily,
} from './family.ts'

/** Bounds of times in seconds: up to the deadlines of Envoy and of a distant store. */
export const secondsBounds = [
  ...[0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.05, 0.1],
] as const

/** The share of a limit that is used after a decision. */
export const ratioBounds = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1] as const

/** One decision of this many is timed, and its share of the limit observed. A power of two. */
export const SAMPLE_EVERY = 16

/** Limits with series of their own: more than a program declares, and 2,000 series at most. */
const LIMITS_MAX = 100

/** Stands for the start of a decision that is not timed. */
export const NOT_TIMED = -1

/** The cells of one limit. */
interface LimitCells {
  /** By the source of the decision. */
  readonly allowed: Readonly<Record<DecisionSource, Counter>>
  readonly denied: Readonly<Record<DecisionSource, Counter>>
  readonly unavailable: Counter
  readonly used: Histogram
}

export class DecisionCounts {
  readonly #decisions = counterFamily({
    name: 'tidegate_limiter_decisions_total',
    help: 'Decisions of each limit, by outcome and by where they were made.',
    labels: ['limit', 'outcome', 'source'],
    open: { label: 'limit', namesMax: LIMITS_MAX },
  })
  readonly #durations = histogramFamily(
    {
      name: 'tidegate_limiter_decision_duration_seconds',
      help: 'Time of a decision, by where it was made; one in 16 is timed and counts for 16.',
      labels: ['source'],
    },
    secondsBounds,
  )
  readonly #used = histogramFamily(
    {
      name: 'tidegate_limiter_used_ratio',
      help: 'Share of the limit in use after a decision; one in 16 is observed and counts for 16.',
      labels: ['limit'],
      open: { label: 'limit', namesMax: LIMITS_MAX },
    },
    ratioBounds,
  )
  readonly #times: Readonly<Record<DecisionSource, Histogram>>
  readonly #cells = new Map<string, LimitCells>()
  /** The limit before, which most decisions are about again: saves a look-up by its name. */
  #lastName: string | undefined
  #last: LimitCells | undefined
  #count = 0

  constructor() {
    this.#times = bySource((source) => this.#durations.of(source))
  }

  /** To be called when a decision begins. */
  startMs(): number {
    this.#count += 1
    return (this.#count & (SAMPLE_EVERY - 1)) === 0 ? steadyClock.now() : NOT_TIMED
  }

  /** `startMs` is the result of `startMs()`. */
  add(name: string, decision: Decision, startMs: number): void {
    const { allowed, degraded, source } = decision
    const cells = name === this.#lastName && this.#last ? this.#last : this.#cellsNamed(name)
    if (allowed) cells.allowed[source].value += 1
    else if (degraded !== null && isRefusal(degraded.mode)) cells.unavailable.value += 1
    else cells.denied[source].value += 1
    if (startMs === NOT_TIMED) return
    this.#times[source].observe((steadyClock.now() - startMs) / 1_000, SAMPLE_EVERY)
    if (degraded === null) cells.used.observe(usedRatio(decision), SAMPLE_EVERY)
  }

  read(): readonly MetricFamily[] {
    return [this.#decisions.read(), this.#durations.read(), this.#used.read()]
  }

  #cellsNamed(name: string): LimitCells {
    const cells = this.#cells.get(name) ?? this.#cellsOf(name)
    this.#lastName = name
    this.#last = cells
    return cells
  }

  #cellsOf(name: string): LimitCells {
    const cells = {
      allowed: bySource((source) => this.#decisions.of(name, 'allowed', source)),
      denied: bySource((source) => this.#decisions.of(name, 'denied', source)),
      unavailable: this.#decisions.of(name, 'unavailable', 'fallback'),
      used: this.#used.of(name),
    }
    if (this.#cells.size < LIMITS_MAX) this.#cells.set(name, cells)
    return cells
  }
}

/** The share of a limit that is used after a decision, from 0 to 1. */
export function usedRatio({ limit, remaining }: Decision): number {
  return limit > 0 ? Math.min(1, Math.max(0, 1 - remaining / limit)) : 1
}

function isRefusal(mode: string): boolean {
  return mode === 'closed' || mode === 'shed'
}

function bySource<T>(of: (source: DecisionSource) => T): Readonly<Record<DecisionSource, T>> {
  return { store: of('store'), lease: of('lease'), cache: of('cache'), fallback: of('fallback') }
}
