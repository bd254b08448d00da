/**
 * Splits the counters of a limit into parts that lie on several shards, for a key that is too hot
 * for one even with leases. Each part has its share of the units, so that all together are never
 * more than the limit. A process stays with one part as long as that has units, and then goes on to
 * the next, so that all are reachable for everybody.
 *
 * Only single limits are split, and plain charges: no reservations, no partial grants.
 */

import { randomInt } from 'node:crypto'
import { type Limit, mostOf } from '../../algorithms/limit.ts'
import { tokenBucketParams } from '../../algorithms/token-bucket.ts'
import type { Decision } from '../../decision.ts'
import { TidegateError } from '../../errors.ts'
import type { Adjustment, Charge, ChargeMode, Counter, MaybePromise, Store } from '../store.ts'
import type { HotKey, LeasedStore } from './leased-store.ts'

export class SplitStore implements Store {
  readonly isRemote = true
  readonly #store: LeasedStore
  readonly #parts = new WeakMap<Limit, readonly Limit[]>()
  /** Where this process begins to ask. */
  #home = randomInt(2 ** 16)

  constructor(store: LeasedStore) {
    this.#store = store
  }

  charger(name: string, limit: Limit): (key: string, cost: number) => MaybePromise<Decision> {
    if (!isSplit(limit)) {
      const charge = this.#store.charger?.(name, limit)
      if (charge !== undefined) return charge
    }
    return async (key, cost) => {
      const [decision] = await this.charge([{ name, limit, key, cost }], 'all')
      return decision as Decision
    }
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    const [first] = group
    if (first === undefined || !group.some(({ limit }) => isSplit(limit))) {
      return this.#store.charge(group, mode)
    }
    if (group.length > 1 || mode === 'partial' || first.hold !== undefined) throw notSplit(first)
    return mode === 'peek' ? this.#look(first) : this.#chargeParts(first)
  }

  /** Given back to the part that is charged now: what is used of it may be less than that. */
  async adjust(group: readonly Adjustment[]): Promise<readonly Decision[]> {
    return this.#store.adjust(group.map((one) => (isSplit(one.limit) ? this.#part(one, 0) : one)))
  }

  reset(group: readonly Counter[]): MaybePromise<void> {
    const parts = group.flatMap((one) => (isSplit(one.limit) ? this.#allParts(one) : one))
    if (parts.length === group.length) return this.#store.reset(group)
    return Promise.all(parts.map((part) => this.#store.reset([part]))).then(() => undefined)
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  ready(timeoutMs?: number): Promise<void> {
    return this.#store.ready(timeoutMs)
  }

  hotKeys(): HotKey[] {
    return this.#store.hotKeys()
  }

  async #chargeParts(charge: Charge): Promise<readonly Decision[]> {
    const denials: Decision[] = []
    for (let step = 0; step < partsOf(charge.limit); step++) {
      const [decision] = await this.#store.charge([this.#part(charge, step)], 'all')
      if (decision === undefined) break
      if (decision.allowed) {
        this.#home += step
        return [together(charge.limit, [decision])]
      }
      denials.push(decision)
    }
    return [together(charge.limit, denials)]
  }

  async #look(charge: Charge): Promise<readonly Decision[]> {
    const looks = this.#allParts(charge).map((part) => this.#store.charge([part], 'peek'))
    const decisions = (await Promise.all(looks)).flat()
    const remaining = decisions.reduce((sum, decision) => sum + decision.remaining, 0)
    return [{ ...together(charge.limit, decisions), remaining }]
  }

  #allParts<C extends Counter>(counter: C): C[] {
    return Array.from({ length: partsOf(counter.limit) }, (_, step) => this.#part(counter, step))
  }

  /** The part that is so many steps from the one where this process begins. */
  #part<C extends Counter>(counter: C, step: number): C {
    const { limit, key } = counter
    const at = (this.#home + step) % partsOf(limit)
    const limits = this.#parts.get(limit) ?? splitLimit(limit)
    this.#parts.set(limit, limits)
    return { ...counter, key: `${at}/${key}`, limit: limits[at] as Limit }
  }
}

function isSplit({ split = 1 }: Limit): boolean {
  return split > 1
}

function partsOf({ split = 1 }: Limit): number {
  return split
}

/** Shares that differ by at most one unit, and together are the limit. */
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

/** The whole as far as the parts that were asked can tell: any may admit, the soonest first. */
function together(limit: Limit, decisions: readonly Decision[]): Decision {
  const best = decisions.reduce((one, other) => {
    if (one.allowed !== other.allowed) return one.allowed ? one : other
    return other.retryAfterMs < one.retryAfterMs ? other : one
  })
  return { ...best, limit: mostOf(limit) }
}

function notSplit({ name }: Charge): TidegateError {
  const message = `limit ${name} is split: it can be checked alone, without reserving or partial`
  return new TidegateError('wrong-use', message)
}
