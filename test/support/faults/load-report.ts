/** The figures of a load by phase, computed from records, samples and marks. */

import { type Check, checksOf, type LoadRecords } from './load-records.ts'
import type { LoadSample } from './load-worker.ts'

export interface Phase {
  readonly name: string
  /** On the axis of `machineNowMs`. It lasts until the next one begins. */
  readonly startedMs: number
}

/** The records of one process. */
export interface ProcessLoad {
  readonly records: LoadRecords
  readonly samples: readonly LoadSample[]
}

export interface LoadReport {
  readonly phases: readonly PhaseReport[]
  readonly processes: readonly ProcessLoad[]
  /** Checks that were never answered. */
  readonly pending: number
}

export interface Figures {
  readonly made: number
  readonly allowed: number
  readonly denied: number
  readonly rejected: number
  readonly pending: number
  /** Checks without an answer when a timer of the deadline had fired. */
  readonly late: number
  /** Degraded decisions, by `reason/mode`. */
  readonly degraded: Readonly<Record<string, number>>
  /** Rejected checks, by message. */
  readonly errors: Readonly<Record<string, number>>
  /** Latencies, rejections included; NaN without answers. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  readonly maxMs: number
}

/**
 * The checks that began in a phase, and the state of the processes. Checks in flight at the end of
 * a phase may be affected by the next one.
 */
export interface PhaseReport extends Phase, Figures {
  /** The largest value of all processes. */
  readonly loopDelayMaxMs: number
  readonly rssBytesMax: number
  readonly heapBytesMax: number
  readonly pendingMax: number
}

export function loadReport(
  processes: readonly ProcessLoad[],
  phases: readonly Phase[],
): LoadReport {
  const checks = processes.flatMap(({ records }) => [...checksOf(records)])
  const samples = processes.flatMap((process) => process.samples)
  const reports = phases.map((phase, index): PhaseReport => {
    const endMs = phases[index + 1]?.startedMs ?? Number.POSITIVE_INFINITY
    const isWithin = (timeMs: number) => timeMs >= phase.startedMs && timeMs < endMs
    return {
      ...phase,
      ...figuresOf(checks.filter(({ startedMs }) => isWithin(startedMs))),
      ...worstOf(samples.filter(({ atMs }) => isWithin(atMs))),
    }
  })
  return { phases: reports, processes, pending: count(checks, 'pending') }
}

/** Outcomes and latencies of checks. */
export function figuresOf(checks: readonly Check[]): Figures {
  const tookMs = checks.map((check) => check.tookMs).filter((ms) => !Number.isNaN(ms))
  const sorted = Float64Array.from(tookMs).sort()
  const rejected = checks.filter(({ outcome }) => outcome === 'rejected')
  const decided = checks.filter(({ outcome }) => outcome === 'allowed' || outcome === 'denied')
  return {
    made: checks.length,
    allowed: count(checks, 'allowed'),
    denied: count(checks, 'denied'),
    rejected: rejected.length,
    pending: count(checks, 'pending'),
    late: checks.filter(({ isLate }) => isLate).length,
    degraded: countNotes(decided.filter(({ note }) => note !== '')),
    errors: countNotes(rejected),
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    p999Ms: percentile(sorted, 0.999),
    maxMs: percentile(sorted, 1),
  }
}

function worstOf(samples: readonly LoadSample[]) {
  const highest = (value: (sample: LoadSample) => number) =>
    samples.reduce((most, sample) => Math.max(most, value(sample)), 0)
  return {
    loopDelayMaxMs: highest((sample) => sample.loopDelayMs),
    rssBytesMax: highest((sample) => sample.rssBytes),
    heapBytesMax: highest((sample) => sample.heapBytes),
    pendingMax: highest((sample) => sample.pending),
  }
}

function count(checks: readonly Check[], outcome: Check['outcome']): number {
  return checks.filter((check) => check.outcome === outcome).length
}

function countNotes(checks: readonly Check[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { note } of checks) counts[note] = (counts[note] ?? 0) + 1
  return counts
}

/** The smallest value that is not below the given share of all values. */
function percentile(sorted: Float64Array, part: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? Number.NaN
}
