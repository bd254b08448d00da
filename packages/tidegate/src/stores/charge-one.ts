/** Two helpers for `Store.chargeOne`: one for callers and one for stores. */

import type { Decision } from '../decision.ts'
import type { Callback, Counter, MaybePromise, Store } from './store.ts'

/** Charges one counter. Returns a promise only if the decision is not known immediately. */
export function chargeSingle(
  store: Store & { readonly isRemote: false },
  counter: Counter,
  cost: number,
): Decision
export function chargeSingle(store: Store, counter: Counter, cost: number): MaybePromise<Decision>
export function chargeSingle(store: Store, counter: Counter, cost: number): MaybePromise<Decision> {
  if (!store.isRemote) return store.chargeOne(counter, cost, neverCalled) as Decision
  const pending = new PendingDecision()
  return store.chargeOne(counter, cost, pending) ?? pending.promise()
}

/** For a store that is not remote, which returns every decision: it saves an allocation. */
const neverCalled: Callback = { resolve: () => undefined, reject: () => undefined }

/** `chargeOne` of a store that has no faster way than a group of one. */
export function chargeOneAsGroup(
  this: Pick<Store, 'charge'>,
  counter: Counter,
  cost: number,
  done: Callback,
): Decision | undefined {
  const decisions = this.charge([{ ...counter, cost }], 'all')
  if (!(decisions instanceof Promise)) return decisions[0]
  decisions.then(
    ([decision]) => done.resolve(decision as Decision),
    (error: unknown) => done.reject(error),
  )
  return undefined
}

/** Turns a callback into a promise, also if it is called before the promise is needed. */
class PendingDecision implements Callback {
  #outcome: Promise<Decision> | undefined
  #resolve: ((decision: Decision) => void) | undefined
  #reject: ((error: unknown) => void) | undefined

  resolve(decision: Decision): void {
    if (this.#resolve === undefined) this.#outcome = Promise.resolve(decision)
    else this.#resolve(decision)
  }

  reject(error: unknown): void {
    if (this.#reject === undefined) this.#outcome = Promise.reject(error)
    else this.#reject(error)
  }

  promise(): Promise<Decision> {
    if (this.#outcome !== undefined) return this.#outcome
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }
}
