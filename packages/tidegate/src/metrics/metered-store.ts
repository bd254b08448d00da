/**
 * Counts the decisions of a store for one limiter. It stands in front of everything else, so that
 * it also sees decisions from leases and cached denials, and what a degraded store decided.
 */

import type { Decision } from '../decision.ts'
import type {
  Adjustment,
  Callback,
  Charge,
  ChargeMode,
  Counter,
  MaybePromise,
  Store,
  StoreCapabilities,
} from '../stores/store.ts'
import { type DecisionCounts, NOT_TIMED } from './decision-counts.ts'

export class MeteredStore implements Store {
  readonly isRemote: boolean
  readonly capabilities: StoreCapabilities
  readonly #store: Store
  readonly #counts: DecisionCounts

  constructor(store: Store, counts: DecisionCounts) {
    this.isRemote = store.isRemote
    this.capabilities = store.capabilities ?? {}
    this.#store = store
    this.#counts = counts
  }

  chargeOne(counter: Counter, cost: number, done: Callback): Decision | undefined {
    const counts = this.#counts
    const { name } = counter
    const startMs = counts.startMs()
    const call = this.isRemote ? new MeteredCall(counts, name, startMs, done) : done
    const decision = this.#store.chargeOne(counter, cost, call)
    if (decision !== undefined) counts.add(name, decision, startMs)
    return decision
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    if (mode === 'peek') return this.#store.charge(group, mode)
    const startMs = this.#counts.startMs()
    const count = (decisions: readonly Decision[]) => {
      for (const [at, { name }] of group.entries()) {
        this.#counts.add(name, decisions[at] as Decision, at === 0 ? startMs : NOT_TIMED)
      }
      return decisions
    }
    const decisions = this.#store.charge(group, mode)
    return decisions instanceof Promise ? decisions.then(count) : count(decisions)
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    return this.#store.adjust(group)
  }

  reset(group: readonly Counter[]): MaybePromise<void> {
    return this.#store.reset(group)
  }

  close(): MaybePromise<void> {
    return this.#store.close()
  }
}

/** A charge that waits for the store. */
class MeteredCall implements Callback {
  readonly #counts: DecisionCounts
  readonly #name: string
  readonly #startMs: number
  readonly #done: Callback

  constructor(counts: DecisionCounts, name: string, startMs: number, done: Callback) {
    this.#counts = counts
    this.#name = name
    this.#startMs = startMs
    this.#done = done
  }

  resolve(decision: Decision): void {
    this.#counts.add(this.#name, decision, this.#startMs)
    this.#done.resolve(decision)
  }

  reject(error: unknown): void {
    this.#done.reject(error)
  }
}
