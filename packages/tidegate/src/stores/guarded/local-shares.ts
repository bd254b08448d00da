/**
 * Limits enforced in this process's memory while the store does not answer, each with the share of
 * one process. A counter starts from what the store last said about it, so that an outage is not a
 * free refill, and again whenever the store has said something since.
 */

import type { Limit } from '../../algorithms/limit.ts'
import { type Clock, systemClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { type MemoryStore, memoryStore } from '../memory/memory-store.ts'
import type { Adjustment, Charge, ChargeMode, Counter } from '../store.ts'
import { shareOf } from './share.ts'

/** What the store last said about a counter, and when it was last used here. */
interface Known {
  remaining: number
  resetAfterMs: number
  atMs: number
  localAtMs: number
}

/** Counters that are remembered, in two generations; some 100 bytes each. */
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

  /** What the store said about a counter. */
  remember({ name, limit, key }: Counter, { remaining, resetAfterMs }: Decision): void {
    const known = this.#known(name, limit, key)
    const atMs = this.#clock.now()
    if (known === undefined) {
      this.#add(label(name, limit, key), { remaining, resetAfterMs, atMs, localAtMs: -Infinity })
      return
    }
    known.remaining = remaining
    known.resetAfterMs = resetAfterMs
    known.atMs = atMs
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

  /** The counter with its share as its limit, and with what it is known to have used. */
  #prepare<C extends Counter>(counter: C): C {
    const { name, limit, key } = counter
    const share = this.#shareOf(limit)
    const prepared = { ...counter, limit: share }
    const known = this.#known(name, limit, key)
    if (known === undefined || known.atMs <= known.localAtMs) return prepared
    const now = this.#clock.now()
    known.localAtMs = now
    const memory = this.#memory()
    memory.reset([prepared])
    const units = Math.ceil((usedNow(known, limit, now) * capacity(share)) / capacity(limit))
    if (units > 0) memory.adjust([{ name, limit: share, key, units }])
    return prepared
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

function capacity(limit: Limit): number {
  return limit.algorithm === 'tokenBucket' ? limit.burst : limit.limit
}

/** Units in use by now, of those that the store knew of. */
function usedNow({ remaining, resetAfterMs, atMs }: Known, limit: Limit, now: number): number {
  const used = Math.max(0, capacity(limit) - remaining)
  const elapsedMs = Math.max(0, now - atMs)
  if (limit.algorithm === 'tokenBucket') {
    return Math.max(0, used - (elapsedMs * limit.limit) / limit.perMs)
  }
  return elapsedMs < resetAfterMs ? used : 0
}
