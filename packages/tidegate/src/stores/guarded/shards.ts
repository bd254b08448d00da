/** The shards of a store, each with a circuit breaker and the time of its last failure. */

import { steadyClock } from '../../clock.ts'
import type { Observer } from '../../observer.ts'
import type { Counter } from '../store.ts'
import { Breaker, type BreakerSettings } from './breaker.ts'

export interface Shard {
  readonly breaker: Breaker
  /** Undefined while it answers. */
  downSinceMs: number | undefined
}

/** Shards with a breaker of their own; a cluster has at most 1,000 nodes. */
const SHARDS_MAX = 1_000

/** The shards by the keys that lie in them, which are counters unless stated otherwise. */
export class Shards<Key = Counter> {
  readonly #shardOf: ((key: Key) => string) | undefined
  readonly #settings: BreakerSettings
  readonly #observer: Observer
  readonly #shards = new Map<string, Shard>()
  /** For stores without shards, and for shards beyond the maximum. */
  readonly #common: Shard

  constructor(
    shardOf: ((key: Key) => string) | undefined,
    settings: BreakerSettings,
    observer: Observer,
  ) {
    this.#shardOf = shardOf
    this.#settings = settings
    this.#observer = observer
    this.#common = this.#newShard('')
  }

  of(key: Key | undefined): Shard {
    if (this.#shardOf === undefined || key === undefined) return this.#common
    const name = this.#shardOf(key)
    const known = this.#shards.get(name)
    if (known !== undefined) return known
    if (this.#shards.size >= SHARDS_MAX) return this.#common
    const shard = this.#newShard(name)
    this.#shards.set(name, shard)
    return shard
  }

  #newShard(name: string): Shard {
    const breaker = new Breaker(this.#settings, (from, to, openMs) => {
      const pause = to === 'open' ? { openMs } : undefined
      this.#observer({ type: 'breaker', shard: name, from, to, ...pause })
      const nowMs = steadyClock.now()
      if (to !== 'closed') {
        shard.downSinceMs ??= nowMs
        return
      }
      const outageMs = nowMs - (shard.downSinceMs ?? nowMs)
      shard.downSinceMs = undefined
      this.#observer({ type: 'recovered', shard: name, outageMs })
    })
    const shard: Shard = { breaker, downSinceMs: undefined }
    return shard
  }
}
