/** Counts the answers to a burst of calls, and compares each key's admissions with its limit. */

/** The fields of a decision that a burst is evaluated by. */
export interface BurstAnswer {
  readonly allowed: boolean
  readonly retryAfterMs: number
  readonly degraded: { readonly reason: string; readonly mode: string } | null
}

export interface BurstReport {
  readonly calls: number
  readonly admitted: number
  /** Admissions beyond the limit, summed over the keys. */
  readonly over: number
  /** Admissions that a key lacks, although enough of its calls were decided. */
  readonly under: number
  /** Degraded answers by reason, mode and outcome, such as `overloaded, shed: denied`. */
  readonly degraded: Readonly<Record<string, number>>
  /** Calls that were shed without a decision of the store, because too many were waiting. */
  readonly shed: number
  /** The number of different `retryAfterMs` among the shed calls. */
  readonly shedWaits: number
  /** Calls that were rejected, by message. */
  readonly failures: Readonly<Record<string, number>>
}

/** The counts of a report that a test compares; the times differ from run to run. */
export type BurstCounts = Pick<
  BurstReport,
  'calls' | 'admitted' | 'over' | 'under' | 'degraded' | 'failures'
>

export function countsOf(report: BurstReport): BurstCounts {
  const { calls, admitted, over, under, degraded, failures } = report
  return { calls, admitted, over, under, degraded, failures }
}

/** The counts of every burst while Redis is healthy. */
export const exact = { over: 0, under: 0, degraded: {}, failures: {} } as const

export function degradedCount({ degraded }: Pick<BurstReport, 'degraded'>): number {
  return Object.values(degraded).reduce((sum, count) => sum + count, 0)
}

interface KeyCounts {
  asked: number
  admitted: number
  /** Refused without a decision of the store. */
  refused: number
}

export class BurstTally {
  readonly #limit: number
  readonly #keys = new Map<number, KeyCounts>()
  readonly #degraded: Record<string, number> = {}
  readonly #failures: Record<string, number> = {}
  readonly #shedWaits = new Set<number>()
  #shed = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Counts the answer to one call for the key with this number. */
  answered(key: number, { allowed, retryAfterMs, degraded }: BurstAnswer): void {
    const counts = this.#countsOf(key)
    if (allowed) counts.admitted++
    if (degraded === null) return
    const { reason, mode } = degraded
    increment(this.#degraded, `${reason}, ${mode}: ${allowed ? 'admitted' : 'denied'}`)
    if (allowed) return
    counts.refused++
    if (reason !== 'overloaded' || mode !== 'shed') return
    this.#shed++
    this.#shedWaits.add(retryAfterMs)
  }

  /** Counts a call that was rejected. */
  failed(key: number, error: unknown): void {
    this.#countsOf(key).refused++
    increment(this.#failures, String(error))
  }

  report(): BurstReport {
    const all = [...this.#keys.values()]
    const sum = (of: (counts: KeyCounts) => number) =>
      all.reduce((total, counts) => total + of(counts), 0)
    const due = ({ asked, refused }: KeyCounts) => Math.min(this.#limit, asked - refused)
    return {
      calls: sum(({ asked }) => asked),
      admitted: sum(({ admitted }) => admitted),
      over: sum(({ admitted }) => Math.max(0, admitted - this.#limit)),
      under: sum((counts) => Math.max(0, due(counts) - counts.admitted)),
      degraded: this.#degraded,
      shed: this.#shed,
      shedWaits: this.#shedWaits.size,
      failures: this.#failures,
    }
  }

  #countsOf(key: number): KeyCounts {
    const counts = this.#keys.get(key) ?? { asked: 0, admitted: 0, refused: 0 }
    if (counts.asked === 0) this.#keys.set(key, counts)
    counts.asked++
    return counts
  }
}

function increment(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1
}
