/**
 * The counters of a limit that is counted here and told to the store every tenth of a second. A
 * decision never waits, after the first on a key; the price is that the processes together may
 * admit what comes between two reports of each beyond the limit.
 */

import { type Limit, lastsMs, mostOf } from '../../algorithms/limit.ts'
import type { Decision } from '../../decision.ts'
import type { Counter, Store } from '../store.ts'
import { isSame } from './denials.ts'

/** How often the store is told, and asked for what the others have done. */
export const SYNC_MS = 100

/** A key that was not asked for this long is forgotten here. */
const IDLE_MS = 1_000

/** Keys that are counted here; further ones are asked of the store. */
const KEYS_MAX = 65_536

interface Synced {
  readonly counter: Counter
  /** What is left, as the store said last, less what was admitted here since. */
  remaining: number
  /** Admitted here, and not told yet. */
  spent: number
  resetAfterMs: number
  usedMs: number
}

export class SyncedCounters {
  readonly #store: Store
  readonly #keys = new Map<string, Synced>()

  constructor(store: Store) {
    this.#store = store
  }

  get size(): number {
    return this.#keys.size
  }

  /** Undefined where nothing is known of the key yet. */
  decide(limit: Limit, key: string, cost: number, nowMs: number): Decision | undefined {
    const synced = this.#keys.get(key)
    if (synced === undefined || !isSame(limit, synced.counter.limit)) return undefined
    const allowed = cost <= synced.remaining
    if (allowed) {
      synced.remaining -= cost
      synced.spent += cost
    }
    synced.usedMs = nowMs
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

  /** What the store said when it was asked for a key. */
  learn(counter: Counter, decision: Decision, nowMs: number): void {
    if (decision.degraded !== null || this.#keys.size >= KEYS_MAX) return
    const { remaining, resetAfterMs } = decision
    this.#keys.set(counter.key, { counter, remaining, spent: 0, resetAfterMs, usedMs: nowMs })
  }

  forget(key: string): void {
    this.#keys.delete(key)
  }

  /** Tells the store what was admitted here, and learns what is left of all. */
  async sync(nowMs: number): Promise<void> {
    const told: Promise<void>[] = []
    for (const [key, synced] of this.#keys) {
      if (nowMs - synced.usedMs > IDLE_MS && synced.spent === 0) this.#keys.delete(key)
      else told.push(this.#tell(synced))
    }
    await Promise.all(told)
  }

  async #tell(synced: Synced): Promise<void> {
    const units = synced.spent
    synced.spent = 0
    try {
      const [decision] = await this.#store.adjust([{ ...synced.counter, units }])
      if (decision === undefined || decision.degraded !== null) return
      synced.remaining = Math.max(0, decision.remaining - synced.spent)
      synced.resetAfterMs = Math.min(decision.resetAfterMs, lastsMs(synced.counter.limit))
    } catch {
      // Whether it was counted is unknown. It is not told twice: less is refused, not more.
    }
  }
}
