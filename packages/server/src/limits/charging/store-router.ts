/** Which store keeps the counters of a limit. */

import type { Limit, Store } from 'tidegate'

export interface StoreRouter {
  /** Always the same store for the same limit. */
  storeFor(limit: Limit): Store
}

export function oneStore(store: Store): StoreRouter {
  return { storeFor: () => store }
}

const SECOND_MS = 1_000

/** Fixed windows of one second go to a store of their own, as `REDIS_PERSECOND` asks for. */
export function perSecondStore(main: Store, perSecond: Store | undefined): StoreRouter {
  if (perSecond === undefined) return oneStore(main)
  return {
    storeFor: (limit) =>
      limit.algorithm === 'fixedWindow' && limit.per === SECOND_MS ? perSecond : main,
  }
}
