/**
 * The counters of a limit that is counted here and told to the store every tenth of a second. A
 * decision on a key that comes often never waits; the price is that the processes together may
 * admit what comes between two reports of each beyond the limit. A key of which nothing was heard
 * for longer than that is asked of the store.
 */

import { type Limit, mostOf } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import type { Counter } from '../store.ts'
import { isSame } from './denials.ts'
import type { Synced, SyncReports } from './sync-reports.ts'

/** How often the store is told, and asked for what the others have done. */
export const SYNC_MS = 100

/**
 * What is known for longer than this is not decided by. A key that comes ten times a second is told
 * in every round, and then known for one round and the way to the store and back; the rest is for a
 * round that is late.
 */
const KNOWN_MS_MAX = 2 * SYNC_MS

/** Keys that are counted here; further ones are asked of the store. */
const KEYS_MAX = 65_536

/** Keys that are looked at in one round, to forget the old ones; it takes some 0.3 ms. */
const SWEEP_MAX = 8_192

export class SyncedCounters {
  readonly #reports: SyncReports
  readonly #keys = new Map<string, Synced>()
  /** Where the last sweep has stopped. */
  #rest: Iterator<[string, Synced]> = this.#keys.entries()

  constructor(reports: SyncReports) {
    this.#reports = reports
  }

  get size(): number {
    return this.#keys.size
  }

  /** Undefined where nothing is known of the key, or nothing new enough. */
  decide(limit: Limit, key: string, cost: number, nowMs: number): Decision | undefined {
    const synced = this.#keys.get(key)
    if (synced === undefined || nowMs - synced.knownMs > KNOWN_MS_MAX) return undefined
    if (!isSame(limit, synced.counter.limit)) return undefined
    const allowed = cost <= synced.remaining
    if (allowed) {
      synced.remaining -= cost
      synced.spent += cost
    }
    // Also where it was denied: the next to come wants to know what has come back.
    this.#reports.add(synced)
    return {
      allowed,
      limit: mostOf(limit),
      remaining: synced.remaining,
      retryAfterMs: allowed ? 0 : SYNC_MS,
      resetAfterMs: synced.resetAfterMs,
      granted: allowed ? cost : 0,
      degraded: null,
    }
  }

  /** What the store said when it was asked for a key. What was not told yet is still to be told. */
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

  /** Also what was not told yet: it was counted on what is no longer there. */
  forget(key: string): void {
    const synced = this.#keys.get(key)
    if (synced !== undefined) synced.spent = 0
    this.#keys.delete(key)
  }

  /** Forgets what is too old to decide by, of some keys after the other in turn. */
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
