/**
 * Charges groups whose counters are on different shards, such as several slots of a Redis Cluster,
 * which no single step reaches. The shards are charged side by side, in one round trip. If one of
 * them denies, the units that the others granted are given back.
 *
 * All or nothing holds once the refunds have arrived. Until then, other callers may be denied too
 * early, and never get more than the limit. A refund that fails leaves its units used until they
 * expire. Groups on one shard go to the store unchanged, in one step.
 */

import type { Decision } from '../../decision.ts'
import type {
  Adjustment,
  Callback,
  Charge,
  ChargeMode,
  Counter,
  MaybePromise,
  Store,
  StoreCapabilities,
} from '../store.ts'

/** The counters of a group on one shard, with their positions in the group. */
interface Bundle<C> {
  readonly counters: C[]
  readonly places: number[]
}

/** `granted` and `remaining` of a charge after the refund. */
interface Settled {
  readonly decision: Decision
  /** Units to give back. */
  readonly refund: number
}

export class SpreadStore implements Store {
  readonly isRemote = true
  readonly capabilities: StoreCapabilities
  readonly #store: Store
  readonly #refunds = new Set<Promise<unknown>>()

  constructor(store: Store) {
    this.#store = store
    this.capabilities = { ...store.capabilities }
  }

  chargeOne(counter: Counter, cost: number, done: Callback): Decision | undefined {
    return this.#store.chargeOne(counter, cost, done)
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    if (this.#sameShard(group)) return this.#store.charge(group, mode)
    return mode === 'peek' ? this.#look(group) : this.#chargeApart(group, mode)
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    if (this.#sameShard(group)) return this.#store.adjust(group)
    return this.#inPlaces(group, (bundle) => this.#store.adjust(bundle))
  }

  async reset(group: readonly Counter[]): Promise<void> {
    await Promise.all(this.#bundles(group).map(({ counters }) => this.#store.reset(counters)))
  }

  /** Waits for refunds that are under way. */
  async close(): Promise<void> {
    await Promise.all(this.#refunds)
    await this.#store.close()
  }

  #sameShard(group: readonly Counter[]): boolean {
    return group.length <= 1 || this.capabilities.sameShard?.(group) !== false
  }

  #look(group: readonly Charge[]): Promise<readonly Decision[]> {
    return this.#inPlaces(group, (bundle) => this.#store.charge(bundle, 'peek'))
  }

  async #chargeApart(group: readonly Charge[], mode: ChargeMode): Promise<readonly Decision[]> {
    const bundles = this.#bundles(group)
    const results = await Promise.allSettled(
      bundles.map(async ({ counters }) => this.#store.charge(counters, mode)),
    )
    const decisions: (Decision | undefined)[] = group.map(() => undefined)
    for (const [at, result] of results.entries()) {
      if (result.status !== 'fulfilled') continue
      for (const [index, place] of (bundles[at] as Bundle<Charge>).places.entries()) {
        decisions[place] = result.value[index]
      }
    }
    const isGranted = decisions.every((decision) => decision?.allowed === true)
    if (isGranted && mode === 'all') return decisions as Decision[]
    const kept = isGranted ? leastGranted(decisions as Decision[]) : 0
    const settled = decisions.map((decision) => decision && settle(decision, kept))
    this.#refund(group, settled)
    for (const result of results) if (result.status === 'rejected') throw result.reason
    return settled.map((one) => (one as Settled).decision)
  }

  /** The caller does not wait: the decision is known, and a refund changes only what is left. */
  #refund(group: readonly Charge[], settled: readonly (Settled | undefined)[]): void {
    const adjustments = group.flatMap((charge, at) => {
      const { refund = 0, decision } = settled[at] ?? {}
      return refund === 0 || decision === undefined
        ? []
        : refundsOf(charge, refund, decision.granted)
    })
    if (adjustments.length === 0) return
    for (const { counters } of this.#bundles(adjustments)) {
      const refund = Promise.resolve(this.#store.adjust(counters))
        .catch(() => undefined)
        .finally(() => this.#refunds.delete(refund))
      this.#refunds.add(refund)
    }
  }

  async #inPlaces<C extends Counter>(
    group: readonly C[],
    call: (bundle: readonly C[]) => MaybePromise<readonly Decision[]>,
  ): Promise<readonly Decision[]> {
    const decisions: Decision[] = []
    await Promise.all(
      this.#bundles(group).map(async ({ counters, places }) => {
        const decided = await call(counters)
        for (const [at, place] of places.entries()) decisions[place] = decided[at] as Decision
      }),
    )
    return decisions
  }

  #bundles<C extends Counter>(group: readonly C[]): Bundle<C>[] {
    const bundles: Bundle<C>[] = []
    for (const [place, counter] of group.entries()) {
      const found = bundles.find(({ counters: [first] }) => this.#sameShard([first as C, counter]))
      const bundle = found ?? { counters: [], places: [] }
      if (found === undefined) bundles.push(bundle)
      bundle.counters.push(counter)
      bundle.places.push(place)
    }
    return bundles
  }
}

function leastGranted(decisions: readonly Decision[]): number {
  return Math.min(...decisions.map((decision) => decision.granted))
}

/** The decision if only `kept` of the granted units are kept. */
function settle(decision: Decision, kept: number): Settled {
  const refund = Math.max(0, decision.granted - kept)
  if (!decision.allowed || refund === 0) return { decision, refund: 0 }
  const { degraded, granted, remaining } = decision
  // A store that did not answer has charged nothing.
  const isCharged = degraded === null || degraded.reason === 'unconfirmed'
  if (!isCharged) return { decision: { ...decision, granted: kept }, refund: 0 }
  return { decision: { ...decision, granted: kept, remaining: remaining + granted - kept }, refund }
}

/** A hold is released as a whole; it is all or nothing, so that nothing of it is kept. */
function refundsOf({ name, limit, key, within, hold }: Charge, units: number, kept: number) {
  const counter = within === undefined ? { name, limit, key } : { name, limit, key, within }
  if (hold === undefined) return [{ ...counter, units: -units }]
  return kept === 0 ? [{ ...counter, units: 0, release: hold.id }] : []
}
