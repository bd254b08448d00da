/**
 * Units set aside: reservations, for costs that are known only afterwards (LLM tokens, minutes),
 * and slots of concurrency limits. Both are holds in the store, which forgets them when their time
 * is over, whatever happens to this process.
 */

import { randomUUID } from 'node:crypto'
import type { Decision } from './decision.ts'
import { TidegateError } from './errors.ts'
import { checkCost } from './keys.ts'
import type { Adjustment, Counter, Store } from './stores/store.ts'

/** The decision on the units asked for and, where it is allowed, the way to settle them. */
export type Reservation<D extends Decision> = D &
  AsyncDisposable & {
    /**
     * Charges what was really spent and gives up the rest. More than was reserved is charged too,
     * beyond the limit if need be: it was spent. Also after the time is over.
     */
    commit(actual?: number): Promise<D>
    /**
     * Gives everything back. Does nothing after a commit or a cancel, so that it fits `finally`.
     */
    cancel(): Promise<void>
  }

/** The decision on a slot and, where it is allowed, the way to give it back. */
export type Slot<D extends Decision> = D &
  AsyncDisposable & {
    /** Gives the slot back; once is enough, more do nothing. */
    release(): Promise<void>
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
  return { ...decision, release, [Symbol.asyncDispose]: release }
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
