/**
 * The order of the stores in front of a remote one. From the limiter to the server: hot keys
 * (leased-store.ts), groups over several shards (spread-store.ts, only if the store has shards),
 * the guard (guarded-store.ts), the store.
 *
 * A remote store has this function as its `front`, so that a program without a remote store does
 * not contain their code.
 */

import { type GuardedOptions, observerOf, parseGuardedOptions } from './guarded/guarded-options.ts'
import { isGuarded, ownGuard } from './guarded/guarded-store.ts'
import { LeasedStore } from './hot-keys/leased-store.ts'
import { SpreadStore } from './hot-keys/spread-store.ts'
import type { Store } from './store.ts'

/**
 * Returns a store with everything in front of it that a limiter adds: a deadline, a breaker, the
 * declared behaviour for an outage, leases for hot keys, split counters. It is the `front` of
 * remote stores. Services that charge groups themselves, because their limits differ from request
 * to request, call it too. A store that is not remote is returned unchanged.
 *
 * Closing it returns leases. The caller closes the store itself, unless it is a `guardedStore`.
 */
export function frontStore(store: Store, options?: GuardedOptions): Store {
  parseGuardedOptions(options ?? {}, 'frontStore')
  if (!store.isRemote) return store
  const guard = isGuarded(store) && options === undefined ? store : ownGuard(store, options ?? {})
  const observer = observerOf(options ?? {}, 'frontStore')
  const hasShards = guard.capabilities?.sameShard !== undefined
  return new LeasedStore(hasShards ? new SpreadStore(guard) : guard, observer)
}
