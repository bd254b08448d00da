/**
 * Splits the counters of a limit into parts that are on several shards, for a key that is too hot
 * for one shard even with leases. Each part has its share of the units, so that all parts together
 * never exceed the limit. A process uses one part while that has units, and then moves on to the
 * next, so that every process can reach all parts.
 *
 * Only single limits are split, and plain charges: no reservations, no partial grants.
 */

import { capacityOf, type Limit } from '../../algorithms/limit.ts'
import { tokenBucketParams } from '../../algorithms/token-bucket.ts'
import type { Decision } from '../../decision.ts'
import { TidegateError } from '../../errors.ts'
import { randomInt } from '../../runtime.ts'
import { chargeSingle } from '../charge-one.ts'
import type { Callback, Charge, ChargeMode, Counter, Store } from '../store.ts'

export class SplitCounters {
  readonly #store: Store
  readonly #parts = new WeakMap<Limit, readonly Limit[]>()
  /**
   * The part that this process charges first. Chosen at first use: Workers have no random numbers
   * while a module is loaded.
   */
  #first: number | undefined

  /** Parts are charged on `store`, as limits that are not split. */
  constructor(store: Store) {
    this.#store = store
  }

  chargeOne(counter: Counter, cost: number, done: Callback): undefined {
    this.#chargeParts(counter, cost).then(
      (decision) => done.resolve(decision),
      (error: unknown) => done.reject(error),
    )
  }

  async charge(group: readonly Charge[], mode: ChargeMode): Promise<readonly Decision[]> {
    const first = group[0] as Charge
    if (group.length > 1 || mode === 'partial' || first.hold !== undefined) throw notSplit(first)
    return [await (mode === 'peek' ? this.#peek(first) : this.#chargeParts(first, first.cost))]
  }

  /** The part that is charged now. A refund goes there, even if less is used of it. */
  current<C extends Counter>(counter: C): C {
    return this.#part(counter, 0)
  }

  all<C extends Counter>(counter: C): C[] {
    return Array.from({ length: partsOf(counter.limit) }, (_, step) => this.#part(counter, step))
  }

  async #chargeParts(counter: Counter, cost: number): Promise<Decision> {
    const denials: Decision[] = []
    for (let step = 0; step < partsOf(counter.limit); step++) {
      const decision = await chargeSingle(this.#store, this.#part(counter, step), cost)
      if (decision.allowed) {
        this.#first = this.#firstPart() + step
        return together(counter.limit, [decision])
      }
      denials.push(decision)
    }
    return together(counter.limit, denials)
  }

  async #peek(charge: Charge): Promise<Decision> {
    const peeks = this.all(charge).map((part) => this.#store.charge([part], 'peek'))
    const decisions = (await Promise.all(peeks)).flat()
    const remaining = decisions.reduce((sum, decision) => sum + decision.remaining, 0)
    return { ...together(charge.limit, decisions), remaining }
  }

  #firstPart(): number {
    this.#first ??= randomInt(0, 2 ** 16)
    return this.#first
  }

  /** The part that is `step` parts after the first one of this process. */
  #part<C extends Counter>(counter: C, step: number): C {
    const { limit, key } = counter
    const at = (this.#firstPart() + step) % partsOf(limit)
    const limits = this.#parts.get(limit) ?? splitLimit(limit)
    this.#parts.set(limit, limits)
    return { ...counter, key: `${at}/${key}`, limit: limits[at] as Limit }
  }
}

export function isSplit({ split = 1 }: Limit): boolean {
  return split > 1
}

function partsOf({ split = 1 }: Limit): number {
  return split
}

/** Returns shares that differ by at most one unit and add up to the limit. */
function splitLimit(limit: Limit): readonly Limit[] {
  const parts = partsOf(limit)
  const share = (units: number, at: number) =>
    Math.floor(units / parts) + (at < units % parts ? 1 : 0)
  return Array.from({ length: parts }, (_, at): Limit => {
    const { onStoreError, onOverload, accuracy } = limit
    const declared = {
      ...(onStoreError === undefined ? undefined : { onStoreError }),
      ...(onOverload === undefined ? undefined : { onOverload }),
      ...(accuracy === undefined ? undefined : { accuracy }),
    }
    if (limit.algorithm !== 'tokenBucket')
      return { ...limit, limit: share(limit.limit, at), split: 1 }
    const bucket = tokenBucketParams(share(limit.limit, at), limit.perMs, share(limit.burst, at))
    return Object.freeze({ ...bucket, ...declared })
  })
}

/** Combines the decisions of parts: one that admits, otherwise the one with the shortest wait. */
function together(limit: Limit, decisions: readonly Decision[]): Decision {
  const best = decisions.reduce((one, other) => {
    if (one.allowed !== other.allowed) return one.allowed ? one : other
    return other.retryAfterMs < one.retryAfterMs ? other : one
  })
  return { ...best, limit: capacityOf(limit) }
}

function notSplit({ name }: Charge): TidegateError {
  const message = `limit ${name} is split: it can be checked alone, without reserving or partial`
  return new TidegateError('wrong-use', message)
}
