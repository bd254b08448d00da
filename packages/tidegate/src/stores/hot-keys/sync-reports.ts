/**
 * Reports to the store the units that this process has admitted, and learns how many are left. Only
 * counters with calls since their last report are reported, many in one command, and few commands
 * are under way at once. With more counters than the store can take, a round takes longer, and
 * the reports of the later ones become too old for decisions.
 */

import { lifetimeMs } from '../../algorithms/limit.ts'
import { steadyClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { inNextTurn } from '../../runtime.ts'
import type { Adjustment, Counter, Store } from '../store.ts'

/** A counter as this process knows it. */
export interface Synced {
  counter: Counter
  /** Units left by the store's last answer, less those admitted here since. */
  remaining: number
  /** Units admitted here, and not reported yet. */
  spent: number
  resetAfterMs: number
  /** When the store answered. */
  knownMs: number
  /** True if the next round reports it. */
  isDue: boolean
}

/**
 * Counters in one command. Each takes Redis 5 to 10 µs and a command about 45 µs, which they share;
 * with more, other clients of the server would wait for longer than half a millisecond.
 */
const BATCH_MAX = 64

/**
 * Commands under way at once. The server works on one while the process reads the reply to the
 * other; with more, requests that wait for the store would wait behind them.
 */
const IN_FLIGHT_MAX = 2

export class SyncReports {
  readonly #store: Store
  #due: Synced[] = []
  #round: Promise<void> | undefined

  constructor(store: Store) {
    this.#store = store
  }

  /** True while reports wait or are under way. One under way may have to be sent again. */
  get isPending(): boolean {
    return this.#due.length > 0 || this.#round !== undefined
  }

  /** Adds a counter to the next round. */
  add(synced: Synced): void {
    if (synced.isDue) return
    synced.isDue = true
    this.#due.push(synced)
  }

  /** Begins a round, unless one is still under way. */
  send(): void {
    if (this.#due.length === 0 || this.#round !== undefined) return
    this.#round = this.#sendAll().finally(() => {
      this.#round = undefined
    })
  }

  /** Sends all remaining reports. */
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
        await this.#report(batch)
        // An open breaker answers immediately. Other work of the process still gets its turn.
        if (sent < due.length) await new Promise<void>((resolve) => inNextTurn(resolve))
      }
    }
    await Promise.all(Array.from({ length: IN_FLIGHT_MAX }, sendInTurn))
  }

  async #report(batch: readonly Synced[]): Promise<void> {
    const adjustments = batch.map(takeSpent)
    if (batch.length === 1 || this.#store.capabilities?.sameShard?.(adjustments) !== false) {
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
      for (const [at, synced] of batch.entries()) {
        const { units } = adjustments[at] as Adjustment
        if (decisions[at]?.degraded?.reason === 'overloaded') this.#putBack(synced, units)
        else learn(synced, decisions[at], nowMs)
      }
    } catch {
      // It is unknown if the report was counted. It is not sent twice, which could deny too much.
    }
  }

  /** A report that was not sent, because too many calls were under way, is part of the next. */
  #putBack(synced: Synced, units: number): void {
    synced.spent += units
    this.add(synced)
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
  synced.resetAfterMs = Math.min(decision.resetAfterMs, lifetimeMs(synced.counter.limit))
  synced.knownMs = nowMs
}
