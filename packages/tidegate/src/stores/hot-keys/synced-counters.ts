/**
 * The counters of a limit that each process counts, and reports to the store every 100 ms. A
 * decision about a key with many calls never waits. The price is that the processes together may
 * exceed the limit by the requests between two reports. A key without a recent report goes to the
 * store.
 */

import { capacityOf, type Limit } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import type { Counter } from '../store.ts'
import { isSame } from './denials.ts'
import type { Synced, SyncReports } from './sync-reports.ts'

/** Interval of reports, which also return the units that other processes have used. */
export const SYNC_MS = 100

/**
 * Older reports are not used for decisions. A key with ten calls per second is reported in every
 * round, so that its report is at most one round and one round trip old; the rest is for a late
 * round.
 */
const KNOWN_MS_MAX = 2 * SYNC_MS

/** Keys that are counted in the process; further ones go to the store. */
const KEYS_MAX = 65_536

/** Keys that one round checks for old ones, which takes about 0.3 ms. */
const SWEEP_MAX = 8_192

export class SyncedCounters {
  readonly #reports: SyncReports
  readonly #keys = new Map<string, Synced>()
  /** The position of the last sweep. */
  #rest: Iterator<[string, Synced]> = this.#keys.entries()

  constructor(reports: SyncReports) {
    this.#reports = reports
  }

  get size(): number {
    return this.#keys.size
  }

  /** Undefined if the key is unknown, or its report is too old. */
  decide(limit: Limit, key: string, cost: number, nowMs: number): Decision | undefined {
    const synced = this.#keys.get(key)
    if (synced === undefined || nowMs - synced.knownMs > KNOWN_MS_MAX) return undefined
    if (!isSame(limit, synced.counter.limit)) return undefined
    const allowed = cost <= synced.remaining
    if (allowed) {
      synced.remaining -= cost
      synced.spent += cost
    }
    // Also after a denial: the next call needs the units that have come back.
    this.#reports.add(synced)
    return {
      allowed,
      limit: capacityOf(limit),
      remaining: synced.remaining,
      retryAfterMs: allowed ? 0 : SYNC_MS,
      resetAfterMs: synced.resetAfterMs,
      granted: allowed ? cost : 0,
      degraded: null,
      source: 'cache',
    }
  }

  /** Takes note of the store's decision about a key. Unreported units stay to be reported. */
  learn(counter: Counter, decision: Decision, nowMs: number): void {
    if (decision.degraded !== null) return
    const { remaining, resetAfterMs } = decision
    const known = this.#keys.get(counter.key)
    if (known !== undefined) {
      const left = Math.max(0, remaining - known.spent)
      Object.assign(known, { counter, remaining: left, resetAfterMs, knownMs: nowMs })
    } else if (this.#keys.size < KEYS_MAX) {
      const nothing = { spent: 0, isDue: false }
      this.#keys.set(counter.key, { counter, remaining, resetAfterMs, knownMs: nowMs, ...nothing })
    }
  }

  /** Forgets a key, with its unreported units: the counter that they belong to is reset. */
  forget(key: string): void {
    const synced = this.#keys.get(key)
    if (synced !== undefined) synced.spent = 0
    this.#keys.delete(key)
  }

  /** Forgets keys whose report is too old; each call checks the next part of the keys. */
  sweep(nowMs: number): void {
    for (let looked = 0; looked < SWEEP_MAX; looked++) {
      const next = this.#rest.next()
      if (next.done === true) {
        this.#rest = this.#keys.entries()
        return
      }
      const [key, { knownMs, isDue }] = next.value
      if (nowMs - knownMs > KNOWN_MS_MAX && !isDue) this.#keys.delete(key)
    }
  }
}
