/**
 * Limits enforced in this process's memory while the store does not answer, each with the share of
 * one process. A counter starts from the store's last decision about it, so that an outage is not a
 * free refill. If the store has answered in between, the higher of its count and the local count
 * applies: a store that answers now and then does not give a fresh share each time.
 *
 * Slots of concurrency limits are this process's own, so they are kept here as well while the store
 * answers, and given back here when they are released.
 */

import { capacityOf, type Limit } from '../../../algorithms/limit.ts'
import { type Clock, systemClock } from '../../../clock.ts'
import type { Decision } from '../../../decision.ts'
import { type MemoryStore, memoryStore } from '../../memory/memory-store.ts'
import type { Adjustment, Charge, ChargeMode, Counter } from '../../store.ts'
import { shareOf } from './share.ts'

/** The store's last decision about a counter, and if the local counter includes it. */
interface Known {
  used: number
  resetAfterMs: number
  atMs: number
  isTaken: boolean
}

/** Counters that are remembered, in two generations; about 100 bytes each. */
const GENERATION_KEYS_MAX = 32_768

/** Counters in memory during an outage. */
const LOCAL_KEYS_MAX = 262_144

export class LocalShares {
  readonly #nodes: () => number
  readonly #clock: Clock
  readonly #shares = new WeakMap<Limit, { nodes: number; share: Limit }>()
  #store: MemoryStore | undefined
  #young = new Map<string, Known>()
  #old = new Map<string, Known>()

  constructor(nodes: () => number, clock: Clock = systemClock) {
    this.#nodes = nodes
    this.#clock = clock
  }

  /** Takes note of the store's decision about a counter. */
  remember(asked: Charge | Adjustment, decision: Decision): void {
    const { name, limit, key } = asked
    if (limit.algorithm === 'concurrency') {
      this.#keepSlot(asked, decision)
      return
    }
    const used = Math.max(0, decision.limit - decision.remaining)
    const { resetAfterMs } = decision
    const said = { used, resetAfterMs, atMs: this.#clock.now(), isTaken: false }
    const known = this.#known(name, limit, key)
    if (known === undefined) this.#add(label(name, limit, key), said)
    else Object.assign(known, said)
  }

  charge(group: readonly Charge[], mode: ChargeMode): readonly Decision[] {
    const shares = group.map((charge) => this.#prepare(charge))
    return this.#memory().charge(shares, mode)
  }

  adjust(group: readonly Adjustment[]): readonly Decision[] {
    const shares = group.map((adjustment) => this.#prepare(adjustment))
    return this.#memory().adjust(shares)
  }

  reset(group: readonly Counter[]): void {
    for (const { name, limit, key } of group) {
      this.#young.delete(label(name, limit, key))
      this.#old.delete(label(name, limit, key))
    }
    this.#store?.reset(group)
  }

  #memory(): MemoryStore {
    this.#store ??= memoryStore({ keysMax: LOCAL_KEYS_MAX, clock: this.#clock })
    return this.#store
  }

  /** The counter with its share as its limit, and with the units that it is known to have used. */
  #prepare<C extends Counter>(counter: C): C {
    const { name, limit, key } = counter
    const share = this.#shareOf(limit)
    const prepared = { ...counter, limit: share }
    const known = this.#known(name, limit, key)
    if (known === undefined || known.isTaken) return prepared
    known.isTaken = true
    const used = usedNow(known, limit, this.#clock.now())
    const ofShare = { name, limit: share, key }
    const [here] = this.#memory().charge([{ ...ofShare, cost: 0 }], 'peek')
    const usedHere = capacityOf(share) - (here?.remaining ?? 0)
    const units = Math.ceil((used * capacityOf(share)) / capacityOf(limit)) - usedHere
    if (units > 0) this.#memory().adjust([{ ...ofShare, units }])
    return prepared
  }

  #keepSlot(asked: Charge | Adjustment, { granted }: Decision): void {
    if ('units' in asked) this.#memory().adjust([asked])
    else if (asked.hold !== undefined && granted > 0) this.#memory().charge([asked], 'all')
  }

  #shareOf(limit: Limit): Limit {
    const nodes = this.#nodes()
    const known = this.#shares.get(limit)
    if (known?.nodes === nodes) return known.share
    const share = shareOf(limit, nodes)
    this.#shares.set(limit, { nodes, share })
    return share
  }

  #known(name: string, limit: Limit, key: string): Known | undefined {
    const text = label(name, limit, key)
    const young = this.#young.get(text)
    if (young !== undefined) return young
    const old = this.#old.get(text)
    if (old !== undefined) this.#add(text, old)
    return old
  }

  #add(text: string, known: Known): void {
    if (this.#young.size >= GENERATION_KEYS_MAX) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(text, known)
  }
}

function label(name: string, limit: Limit, key: string): string {
  return `${limit.algorithm}\0${name}\0${key}`
}

/** Units in use now, of those that the store counted. */
function usedNow({ used, resetAfterMs, atMs }: Known, limit: Limit, now: number): number {
  const elapsedMs = Math.max(0, now - atMs)
  if (limit.algorithm === 'tokenBucket') {
    return Math.max(0, used - (elapsedMs * limit.limit) / limit.perMs)
  }
  return elapsedMs < resetAfterMs ? used : 0
}
