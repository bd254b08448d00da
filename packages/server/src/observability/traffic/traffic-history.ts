/**
 * The decisions of the last 15 minutes, second by second, and those of each limit in steps of 5 s.
 * It reads the counters of the metrics once a second, so that a decision costs nothing more.
 *
 * Memory is bounded: about 60 KB for all, and 5 KB for each of the at most 61 limits with series of
 * their own.
 */

import type { MetricFamily } from 'tidegate/metrics'
import { type Buckets, bucketsBetween, bucketsSum, noBuckets, quantileOf } from './quantile.ts'
import { SecondRing } from './second-ring.ts'

export interface TrafficRow {
  readonly atMs: number
  readonly allowed: number
  readonly denied: number
  readonly blocked: number
  readonly unavailable: number
  readonly shed: number
  readonly degraded: number
  /** Over the last 10 seconds; NaN without a decision. */
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface LimitRow {
  readonly name: string
  readonly allowedPerSecond: number
  readonly deniedPerSecond: number
  readonly shadowDeniedPerSecond: number
  readonly asked: number
  readonly denied: number
  readonly shadowAsked: number
  readonly shadowDenied: number
  readonly used: readonly number[]
}

/** The counters that are read. */
export interface TrafficFamilies {
  readonly decisions: MetricFamily
  readonly durations: MetricFamily
  readonly limits: MetricFamily
  readonly used: MetricFamily
  /** Requests that were refused because of overload, since the start. */
  readonly shed: number
}

/** 15 minutes: an incident is looked at within minutes, and Prometheus has the rest. */
const SECONDS_MAX = 900

/** Over one second with few decisions, the p99 is the slowest one, and its line has spikes. */
const TIMES_SECONDS = 10

/** A step of the history of a limit. */
export const LIMIT_STEP_MS = 5_000
const LIMIT_STEPS = 180

/** The distribution over the last 2 to 3 minutes. */
const USED_STEP_MS = 60_000

const fields = [
  ...['atMs', 'allowed', 'denied', 'blocked', 'unavailable', 'shed', 'degraded'],
  ...['p50Ms', 'p99Ms'],
] as readonly (keyof TrafficRow)[]

const limitFields = ['allowed', 'denied', 'shadowAllowed', 'shadowDenied'] as const

type LimitCounts = Record<(typeof limitFields)[number], number>

interface LimitState {
  readonly ring: SecondRing<(typeof limitFields)[number]>
  /** Decisions of the last second. */
  rate: LimitCounts
  last: LimitCounts
  stepFrom: LimitCounts
  usedFrom: readonly Buckets[]
  used: Buckets
}

const columnOf: Readonly<Record<string, 'allowed' | 'denied' | 'blocked' | 'unavailable'>> = {
  allowed: 'allowed',
  denied: 'denied',
  blocked: 'blocked',
  unauthenticated: 'blocked',
  unavailable: 'unavailable',
}

const degradedWays = new Set(['open', 'local', 'closed', 'shed'])

export class TrafficHistory {
  readonly #read: () => TrafficFamilies
  readonly #rows = new SecondRing<keyof TrafficRow>(fields, SECONDS_MAX)
  readonly #limits = new Map<string, LimitState>()
  #totals = noTotals()
  /** The times of all decisions until each of the last seconds, the oldest first. */
  readonly #times: Buckets[] = []
  #last: TrafficRow = emptyRow(0)
  #isStarted = false
  #stepMs = 0
  #usedMs = 0

  constructor(read: () => TrafficFamilies) {
    this.#read = read
  }

  /** To be called once a second. */
  sample(nowMs: number): void {
    const families = this.#read()
    const isFirst = !this.#isStarted
    this.#isStarted = true
    const totals = totalsOf(families)
    const times = timesOf(families.durations)
    const bounds = families.durations.bounds ?? []
    const spent = bucketsBetween(this.#times[0] ?? noBuckets, times)
    const quantile = (share: number) =>
      (quantileOf(share, bounds, spent.counts, spent.total) ?? Number.NaN) * 1_000
    if (!isFirst) {
      this.#last = {
        ...difference(this.#totals, totals),
        atMs: nowMs,
        p50Ms: quantile(0.5),
        p99Ms: quantile(0.99),
      }
      this.#rows.add(this.#last)
    }
    this.#totals = totals
    this.#times.push(times)
    if (this.#times.length > TIMES_SECONDS) this.#times.shift()
    this.#sampleLimits(families, nowMs)
  }

  get last(): TrafficRow {
    return this.#last
  }

  /** The columns of the last 15 minutes, the oldest first. */
  column(field: keyof TrafficRow): number[] {
    return this.#rows.column(field)
  }

  limits(): readonly LimitRow[] {
    return [...this.#limits].map(([name, { rate, ring, last, stepFrom, used, usedFrom }]) => {
      const open = difference(stepFrom, last)
      const sum = (field: keyof LimitCounts) => ring.sum(field) + open[field]
      const spent = bucketsBetween(usedFrom[0] ?? noBuckets, used)
      return {
        name,
        allowedPerSecond: rate.allowed + rate.shadowAllowed,
        deniedPerSecond: rate.denied,
        shadowDeniedPerSecond: rate.shadowDenied,
        asked: sum('allowed') + sum('denied'),
        denied: sum('denied'),
        shadowAsked: sum('shadowAllowed') + sum('shadowDenied'),
        shadowDenied: sum('shadowDenied'),
        used: spent.counts.map((count, at) => count - (spent.counts[at - 1] ?? 0)),
      }
    })
  }

  /** Undefined for a limit without decisions. */
  limit(name: string) {
    const ring = this.#limits.get(name)?.ring
    if (ring === undefined) return undefined
    const [allowed, shadowAllowed] = [ring.column('allowed'), ring.column('shadowAllowed')]
    return {
      name,
      stepMs: LIMIT_STEP_MS,
      endMs: this.#stepMs,
      allowed: allowed.map((count, at) => count + (shadowAllowed[at] ?? 0)),
      denied: ring.column('denied'),
      shadowDenied: ring.column('shadowDenied'),
    }
  }

  #sampleLimits({ limits, used }: TrafficFamilies, nowMs: number): void {
    const counts = limitCounts(limits)
    for (const name of this.#limits.keys()) if (!counts.has(name)) this.#limits.delete(name)
    const isStep = nowMs - this.#stepMs >= LIMIT_STEP_MS
    const isUsedStep = nowMs - this.#usedMs >= USED_STEP_MS
    const usedNow = new Map(used.samples.map((one) => [one.labels.limit ?? '', bucketsOf(one)]))
    for (const [name, now] of counts) {
      const state = this.#limits.get(name) ?? this.#newLimit(name)
      state.rate = difference(state.last, now)
      state.last = now
      state.used = usedNow.get(name) ?? state.used
      if (isStep) {
        state.ring.add(difference(state.stepFrom, now))
        state.stepFrom = now
      }
      if (isUsedStep) state.usedFrom = [...state.usedFrom.slice(-1), state.used]
    }
    if (isStep) this.#stepMs = nowMs
    if (isUsedStep) this.#usedMs = nowMs
  }

  #newLimit(name: string): LimitState {
    const made: LimitState = {
      ring: new SecondRing(limitFields, LIMIT_STEPS),
      rate: noCounts(),
      last: noCounts(),
      stepFrom: noCounts(),
      usedFrom: [],
      used: noBuckets,
    }
    this.#limits.set(name, made)
    return made
  }
}

function emptyRow(atMs: number): TrafficRow {
  return { atMs, ...noTotals(), p50Ms: Number.NaN, p99Ms: Number.NaN }
}

function noTotals() {
  return { allowed: 0, denied: 0, blocked: 0, unavailable: 0, shed: 0, degraded: 0 }
}

function noCounts(): LimitCounts {
  return { allowed: 0, denied: 0, shadowAllowed: 0, shadowDenied: 0 }
}

function totalsOf({ decisions, shed }: TrafficFamilies) {
  const totals = { ...noTotals(), shed }
  for (const { labels, value } of decisions.samples) {
    const column = columnOf[labels.outcome ?? '']
    if (column !== undefined) totals[column] += value
    if (degradedWays.has(labels.by ?? '')) totals.degraded += value
  }
  return totals
}

/** Requests without a limit take no time and would hide the others. */
function timesOf({ samples }: MetricFamily): Buckets {
  return bucketsSum(samples.filter(({ labels }) => labels.by !== 'none').map(bucketsOf))
}

function bucketsOf({ value, buckets }: MetricFamily['samples'][number]): Buckets {
  return { counts: buckets ?? [], total: value }
}

function limitCounts({ samples }: MetricFamily): ReadonlyMap<string, LimitCounts> {
  const counts = new Map<string, LimitCounts>()
  for (const { labels, value } of samples) {
    const { limit = '', mode, outcome } = labels
    const sums = counts.get(limit) ?? noCounts()
    counts.set(limit, sums)
    if (mode === 'shadow') sums[outcome === 'allowed' ? 'shadowAllowed' : 'shadowDenied'] += value
    else sums[outcome === 'allowed' ? 'allowed' : 'denied'] += value
  }
  return counts
}

/** A counter that was forgotten begins again, so that a difference is never below 0. */
function difference<T extends Record<string, number>>(before: T, now: T): T {
  const pairs = Object.entries(now).map(([field, value]) => {
    return [field, Math.max(0, value - (before[field] ?? 0))] as const
  })
  return Object.fromEntries(pairs) as T
}
