/**
 * Charges the counters of a plan: one decision for each. Enforced limits are charged all or
 * nothing, in one step if they are in one store. Everything else of a call is charged in the same
 * round trip, so that the deadline of the store is the deadline of the call, and is given back if
 * the call is refused.
 *
 * With `each`, every counter is charged on its own and nothing is given back.
 */

import { type Callback, chargeSingle, type Decision, type MaybePromise, type Store } from 'tidegate'
import type { PlannedCharge } from './charge-plan.ts'
import { counterOf, release } from './open-slots.ts'
import type { StoreRouter } from './store-router.ts'

/** How a call with several counters is charged: all of them or none, or each on its own. */
export const chargings = ['all-or-nothing', 'each'] as const

export type Charging = (typeof chargings)[number]

export class ChargeGroups {
  readonly #stores: StoreRouter
  readonly #charging: Charging

  constructor(stores: StoreRouter, charging: Charging = 'all-or-nothing') {
    this.#stores = stores
    this.#charging = charging
  }

  /** Returns a decision for each charge, without a promise if no store has to be waited for. */
  charge(charges: readonly PlannedCharge[]): MaybePromise<readonly Decision[]> {
    const [first] = charges
    if (first === undefined) return []
    if (charges.length === 1 && !first.isNegative) {
      const decision = this.#one(first)
      return decision instanceof Promise ? decision.then((one) => [one]) : [decision]
    }
    if (this.#charging === 'each') return Promise.all(charges.map((one) => this.#alone(one)))
    return charges.some(isApart) ? this.#mixed(charges) : this.#together(charges)
  }

  /**
   * The fast path for a plan with a single counter, without promises: returns the decision if it is
   * known immediately, otherwise undefined, and calls `done` later. Holds and negative charges go
   * by `charge`.
   */
  chargeOne(charge: PlannedCharge, done: Callback): Decision | undefined {
    return this.#stores.storeFor(charge.limit).chargeOne(charge, charge.cost, done)
  }

  /** Returns the decisions that `charge` would make, and changes nothing. */
  peek(charges: readonly PlannedCharge[]): MaybePromise<readonly Decision[]> {
    const [first] = charges
    if (first === undefined) return []
    const store = this.#storeOfAll(first, charges)
    if (store !== undefined) return store.charge(charges, 'peek')
    return Promise.all(
      charges.map(async (one) => {
        const [decision] = await this.#stores.storeFor(one.limit).charge([one], 'peek')
        return decision as Decision
      }),
    )
  }

  storeFor({ limit }: PlannedCharge): Store {
    return this.#stores.storeFor(limit)
  }

  #one(charge: PlannedCharge): MaybePromise<Decision> {
    if (charge.hold === undefined) return chargeSingle(this.storeFor(charge), charge, charge.cost)
    const decisions = this.storeFor(charge).charge([charge], 'all')
    if (decisions instanceof Promise) return decisions.then(([one]) => one as Decision)
    return decisions[0] as Decision
  }

  async #alone(charge: PlannedCharge): Promise<Decision> {
    return charge.isNegative ? this.#giveBack(charge, charge.cost) : this.#one(charge)
  }

  async #mixed(charges: readonly PlannedCharge[]): Promise<readonly Decision[]> {
    const enforced = charges.filter((one) => !isApart(one) || isQuota(one))
    const beside = charges.filter((one) => !enforced.includes(one))
    const [decided, others] = await Promise.all([
      this.#enforce(enforced),
      Promise.all(beside.map((one) => this.#alone(one))),
    ])
    if (!isAdmitted(enforced, decided)) this.#refund(beside, others)
    return charges.map((charge) => {
      const at = enforced.indexOf(charge)
      return (at < 0 ? others[beside.indexOf(charge)] : decided[at]) as Decision
    })
  }

  /**
   * Quotas are charged one by one beside the rest, so that those with room are charged in the same
   * round trip.
   */
  async #enforce(charges: readonly PlannedCharge[]): Promise<readonly Decision[]> {
    const quotas = charges.filter(isQuota)
    if (quotas.length === 0) return this.#together(charges)
    const rest = charges.filter((one) => !isQuota(one))
    const [decidedQuotas, decidedRest] = await Promise.all([
      Promise.all(quotas.map((quota) => this.#alone(quota))),
      this.#together(rest),
    ])
    const isRefused = decidedRest.some(({ allowed }) => !allowed)
    const hasRoom = decidedQuotas.some(({ allowed }) => allowed)
    if (isRefused) this.#refund(quotas, decidedQuotas)
    else if (!hasRoom) this.#refund(rest, decidedRest)
    const isCharged = !isRefused && hasRoom
    return charges.map((charge) => {
      const at = quotas.indexOf(charge)
      const decision = (at < 0 ? decidedRest[rest.indexOf(charge)] : decidedQuotas[at]) as Decision
      return isCharged ? decision : uncharged(decision)
    })
  }

  #together(charges: readonly PlannedCharge[]): MaybePromise<readonly Decision[]> {
    const [first] = charges
    if (first === undefined) return []
    if (charges.length === 1) return this.charge(charges)
    const store = this.#storeOfAll(first, charges)
    if (store === undefined) return this.#inSeveralStores(charges)
    return store.charge(charges, 'all')
  }

  async #inSeveralStores(charges: readonly PlannedCharge[]): Promise<readonly Decision[]> {
    const decisions = await Promise.all(charges.map((charge) => this.#alone(charge)))
    if (decisions.every(({ allowed }) => allowed)) return decisions
    this.#refund(charges, decisions)
    return decisions.map(uncharged)
  }

  /** The store that keeps all of these counters; undefined if they are in several. */
  #storeOfAll(first: PlannedCharge, charges: readonly PlannedCharge[]): Store | undefined {
    const store = this.storeFor(first)
    return charges.every((charge) => this.storeFor(charge) === store) ? store : undefined
  }

  async #giveBack(charge: PlannedCharge, units: number): Promise<Decision> {
    const adjustment =
      charge.hold === undefined ? { ...counterOf(charge), units: -units } : release(charge)
    const [decision] = await this.storeFor(charge).adjust([adjustment])
    return decision as Decision
  }

  /** The call does not wait: a refund that fails leaves the counter too high, never too low. */
  #refund(charges: readonly PlannedCharge[], decisions: readonly Decision[]): void {
    for (const [at, charge] of charges.entries()) {
      const { granted = 0, degraded = null } = decisions[at] ?? {}
      if (charge.isNegative || granted === 0 || !isCounted(degraded)) continue
      this.#giveBack(charge, granted).catch(() => undefined)
    }
  }
}

/** True for charges that are not part of the all-or-nothing group. */
function isApart({ isShadow, isNegative, isQuota }: PlannedCharge): boolean {
  return isShadow || isNegative || isQuota
}

function isQuota(charge: PlannedCharge): boolean {
  return charge.isQuota && !charge.isShadow && !charge.isNegative
}

/** True if no limit refuses the call, and one of its quotas has room. */
function isAdmitted(charges: readonly PlannedCharge[], decisions: readonly Decision[]): boolean {
  let hasQuota = false
  let hasRoom = false
  for (const [at, charge] of charges.entries()) {
    const allowed = decisions[at]?.allowed === true
    if (!charge.isQuota && !allowed) return false
    hasQuota ||= charge.isQuota
    hasRoom ||= charge.isQuota && allowed
  }
  return !hasQuota || hasRoom
}

/** True if the store has counted the units of a decision. */
function isCounted(degraded: Decision['degraded']): boolean {
  return degraded === null || degraded.reason === 'unconfirmed'
}

/** The decision after its units were given back. */
function uncharged(decision: Decision): Decision {
  const { allowed, granted, remaining } = decision
  return allowed ? { ...decision, granted: 0, remaining: remaining + granted } : decision
}
