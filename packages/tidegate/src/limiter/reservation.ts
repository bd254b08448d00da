/**
 * Units set aside: reservations, for costs that are known only afterwards (LLM tokens, minutes),
 * and slots of concurrency limits. Both are holds in the store, which forgets them when their time
 * is over, whatever happens to this process.
 */

import type { Decision } from '../decision.ts'
import { TidegateError } from '../errors.ts'
import { randomUUID } from '../runtime.ts'
import type { Adjustment, Counter, Store } from '../stores/store.ts'
import { checkCost } from './keys.ts'

/** The decision about the reserved units and, if it is allowed, the functions to settle them. */
export type Reservation<D extends Decision> = D &
  AsyncDisposable & {
    /**
     * Charges the units that were really spent and gives back the rest. Units beyond the
     * reservation are charged too, beyond the limit if necessary. It works also after `ttlMs`.
     */
    commit(actual?: number): Promise<D>
    /**
     * Gives everything back. Does nothing after a commit or a cancel, so that it fits `finally`.
     */
    cancel(): Promise<void>
  }

/** The decision about a slot and, if it is allowed, the functions to release and renew it. */
export type Slot<D extends Decision> = D &
  AsyncDisposable & {
    /** Releases the slot. Further calls do nothing. */
    release(): Promise<void>
    /**
     * Holds the slot for another `ttl` from now on. The decision is not `allowed` if the slot is
     * not held any more, because its `ttl` was over or it was released: another client may have it,
     * and it is not taken back. If the store does not answer, the decision is `degraded`: the slot
     * stays held until its `ttl` is over, and the caller may try again.
     */
    renew(): Promise<D>
  }

type Combine<D> = (decisions: readonly Decision[]) => D

export async function reservation<D extends Decision>(
  store: Store,
  counters: readonly Counter[],
  cost: number,
  ttlMs: number,
  combine: Combine<D>,
): Promise<Reservation<D>> {
  const hold = { id: randomUUID(), ttlMs }
  const group = counters.map((counter) => ({
    ...counter,
    cost: isSlots(counter) ? Math.min(cost, 1) : cost,
    hold,
  }))
  const decision = combine(await store.charge(group, 'all'))
  let isOpen = decision.allowed
  const settle = (actual: number) => {
    isOpen = false
    return store.adjust(counters.map((counter) => settlement(counter, actual, hold.id)))
  }
  const cancel = async () => {
    if (isOpen) await settle(0)
  }
  const commit = async (actual = cost) => {
    checkCost(actual)
    if (!isOpen) throw notOpen(decision.allowed)
    return combine(await settle(actual))
  }
  return { ...decision, commit, cancel, [Symbol.asyncDispose]: cancel }
}

export async function slot<D extends Decision>(
  store: Store,
  counters: readonly Counter[],
  combine: Combine<D>,
): Promise<Slot<D>> {
  const slots = counters.filter(isSlots)
  if (slots.length === 0) {
    throw new TidegateError('wrong-use', 'acquire needs a concurrency limit; use check')
  }
  const id = randomUUID()
  const group = counters.map(({ limit, ...counter }) =>
    limit.algorithm === 'concurrency'
      ? { ...counter, limit, cost: 1, hold: { id, ttlMs: limit.ttlMs } }
      : { ...counter, limit, cost: 1 },
  )
  const decision = combine(await store.charge(group, 'all'))
  let isOpen = decision.allowed
  const release = async () => {
    if (!isOpen) return
    isOpen = false
    await store.adjust(slots.map((counter) => settlement(counter, 0, id)))
  }
  const renew = async () => {
    if (!isOpen) return { ...decision, allowed: false, granted: 0 }
    return combine(await store.adjust(counters.map((counter) => renewal(counter, id))))
  }
  return { ...decision, release, renew, [Symbol.asyncDispose]: release }
}

/** Prolongs a slot. The decisions of other limits only contain the units left. */
function renewal(counter: Counter, id: string): Adjustment {
  const { limit } = counter
  if (limit.algorithm !== 'concurrency') return { ...counter, units: 0 }
  return { ...counter, units: 0, renews: { id, ttlMs: limit.ttlMs } }
}

function settlement(counter: Counter, actual: number, release: string): Adjustment {
  return { ...counter, units: isSlots(counter) ? 0 : actual, release }
}

function isSlots(counter: Counter): boolean {
  return counter.limit.algorithm === 'concurrency'
}

function notOpen(wasAllowed: boolean): TidegateError {
  return wasAllowed
    ? new TidegateError('already-settled', 'commit: the reservation was settled before')
    : new TidegateError('wrong-use', 'commit: the reservation was denied; check allowed first')
}
