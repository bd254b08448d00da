/**
 * Tells the store what was admitted here, and learns what is left of all. Only counters that were
 * asked for since they were told last are told again, many in one command, and few commands are
 * under way at once: with more counters than the store can take in, a round takes longer, and what
 * is known of the later ones becomes too old to decide by.
 */

import { lastsMs } from '../../algorithms/limit.ts'
import { steadyClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import type { Adjustment, Counter, Store } from '../store.ts'

/** A counter as it is known here. */
export interface Synced {
  counter: Counter
  /** What is left, as the store said last, less what was admitted here since. */
  remaining: number
  /** Admitted here, and not told yet. */
  spent: number
  resetAfterMs: number
  /** When the store said it. */
  knownMs: number
  /** Whether it is told in the next round. */
  isDue: boolean
}

/**
 * Counters in one command. Each takes Redis 5 to 10 µs and a command some 45 µs, which is shared by
 * then; with more, the others who use the server would wait for longer than half a millisecond.
 */
const BATCH_MAX = 64

/**
 * Commands under way at once. One is judged while the reply to the other is read; with more,
 * requests that wait for the store would wait behind them.
 */
const IN_FLIGHT_MAX = 2

export class SyncReports {
  readonly #store: Store
  #due: Synced[] = []
  #round: Promise<void> | undefined

  constructor(store: Store) {
    this.#store = store
  }

  /** Has it told in the next round. */
  add(synced: Synced): void {
    if (synced.isDue) return
    synced.isDue = true
    this.#due.push(synced)
  }

  /** Begins a round, unless one is still under way: then the next one takes what is due. */
  send(): void {
    if (this.#due.length === 0 || this.#round !== undefined) return
    this.#round = this.#sendAll().finally(() => {
      this.#round = undefined
    })
  }

  /** Tells everything that is left to tell. */
  async finish(): Promise<void> {
    await this.#round
    this.send()
    await this.#round
  }

  async #sendAll(): Promise<void> {
    const due = this.#due
    this.#due = []
    let sent = 0
    const sendInTurn = async () => {
      while (sent < due.length) {
        const batch = due.slice(sent, sent + BATCH_MAX)
        sent += batch.length
        await this.#tell(batch)
        // An open breaker answers at once. The process has its turn all the same.
        if (sent < due.length) await new Promise((resolve) => setImmediate(resolve))
      }
    }
    await Promise.all(Array.from({ length: IN_FLIGHT_MAX }, sendInTurn))
  }

  async #tell(batch: readonly Synced[]): Promise<void> {
    const adjustments = batch.map(takeSpent)
    if (batch.length === 1 || this.#store.liesTogether?.(adjustments) !== false) {
      await this.#adjust(batch, adjustments)
      return
    }
    const alone = batch.map((synced, at) => this.#adjust([synced], adjustments.slice(at, at + 1)))
    await Promise.all(alone)
  }

  async #adjust(batch: readonly Synced[], adjustments: readonly Adjustment[]): Promise<void> {
    try {
      const decisions = await this.#store.adjust(adjustments)
      const nowMs = steadyClock.now()
      for (const [at, synced] of batch.entries()) learn(synced, decisions[at], nowMs)
    } catch {
      // Whether it was counted is unknown. It is not told twice: less is refused, not more.
    }
  }
}

function takeSpent(synced: Synced): Adjustment {
  const units = synced.spent
  synced.spent = 0
  synced.isDue = false
  return { ...synced.counter, units }
}

function learn(synced: Synced, decision: Decision | undefined, nowMs: number): void {
  if (decision === undefined || decision.degraded !== null) return
  synced.remaining = Math.max(0, decision.remaining - synced.spent)
  synced.resetAfterMs = Math.min(decision.resetAfterMs, lastsMs(synced.counter.limit))
  synced.knownMs = nowMs
}
