/**
 * Metrics of limiters as plain numbers, for any registry. Pass `meter` to `createLimiter`, and read
 * `snapshot()` when a page of metrics is made.
 */

import type { LimiterMeter } from '../limiter/limiter.ts'
import { safely } from '../observer.ts'
import type { Store } from '../stores/store.ts'
import { DecisionCounts } from './decision-counts.ts'
import type { MetricFamily } from './family.ts'
import { MeteredStore } from './metered-store.ts'
import { StoreCounts } from './store-counts.ts'

export interface LimiterMetrics {
  /** The option `meter` of limiters and of guarded stores. Several may share it. */
  readonly meter: LimiterMeter
  /** Reads the gauges of a store that no limiter is made with. */
  follow(store: Store): void
  /** Every metric with its series. A metric that has not been counted yet has none. */
  snapshot(): readonly MetricFamily[]
}

/** Stores whose gauges are read; a program has a handful, and limiters may come and go. */
const STORES_MAX = 100

/** Counts decisions, commands and outages of all limiters that get its `meter`. */
export function limiterMetrics(): LimiterMetrics {
  const decisions = new DecisionCounts()
  const commands = new StoreCounts()
  // Weak, because closed limiters are not reported.
  let stores: WeakRef<Store>[] = []
  const living = () => stores.flatMap((reference) => reference.deref() ?? [])
  const follow = (store: Store) => {
    stores = living().map((one) => new WeakRef(one))
    if (stores.length < STORES_MAX) stores.push(new WeakRef(store))
  }
  return {
    meter: {
      observer: safely(commands.observer),
      command: (shard, charges, tookMs, error) => commands.command(shard, charges, tookMs, error),
      metered(store) {
        follow(store)
        return new MeteredStore(store, decisions)
      },
    },
    follow,
    snapshot: () => [...decisions.read(), ...commands.read(living())],
  }
}
