/**
 * Judges the counters of a plan: one decision for each. What must hold together is asked for in one
 * step where the store can do that, and side by side with a refund where it cannot. Every way takes
 * one round trip, so that the deadline of the store is the deadline of the call.
 *
 * Where each counter is charged on its own, nothing holds together and nothing is given back.
 */

import type { Charge, Decision, MaybePromise, Store } from 'tidegate'
import type { Plan, PlanCharge } from './plan.ts'

export interface JudgeStores {
  readonly main: JudgeStore
  /** For windows of a second. */
  readonly perSecond: JudgeStore | undefined
}

export interface JudgeStore {
  readonly store: Store
  /** Whether its counters lie on several servers, so that no step reaches several of them. */
  readonly isSpread: boolean
}

/** A decision, and whether it is a denial that needed no store, because it was known already. */
export interface Judged extends Decision {
  readonly isRemembered?: boolean
}

/** What a call with several counters is charged: all of them or none, or each on its own. */
export const chargings = ['all-or-nothing', 'each'] as const

export type Charging = (typeof chargings)[number]

type Charger = (key: string, cost: number) => MaybePromise<Decision>

const SECOND_MS = 1_000

export class Judge {
  readonly #stores: JudgeStores
  readonly #charging: Charging
  readonly #chargers = new WeakMap<object, Charger>()

  constructor(stores: JudgeStores, charging: Charging) {
    this.#stores = stores
    this.#charging = charging
  }

  /** A decision for each charge of the plan; at once where no store has to be asked. */
  judge({ charges }: Plan): MaybePromise<readonly Judged[]> {
    const [first] = charges
    if (first === undefined) return []
    if (charges.length === 1 && !first.isNegative) {
      const decision = this.#judgeOne(first)
      return decision instanceof Promise ? decision.then((one) => [one]) : [decision]
    }
    return this.#charging === 'each' ? this.#judgeEach(charges) : this.#judgeMany(charges)
  }

  #judgeOne(charge: PlanCharge): MaybePromise<Judged> {
    const decision = this.#chargerOf(charge)(charge.key, charge.cost)
    if (decision instanceof Promise) return decision
    return remembered(decision, this.#storeOf(charge).store)
  }

  #judgeEach(charges: readonly PlanCharge[]): Promise<readonly Judged[]> {
    return Promise.all(
      charges.map((one) => (one.isNegative ? this.#giveBack(one) : this.#judgeOne(one))),
    )
  }

  async #judgeMany(charges: readonly PlanCharge[]): Promise<readonly Judged[]> {
    const isEnforced = ({ isShadow, isNegative }: PlanCharge) => !isShadow && !isNegative
    const enforced = charges.filter(isEnforced)
    const watching = charges.filter(({ isShadow, isNegative }) => isShadow && !isNegative)
    const [decided, shadows, negatives] = await Promise.all([
      this.#enforce(enforced),
      Promise.all(watching.map((one) => this.#alone(one))),
      Promise.all(charges.filter(({ isNegative }) => isNegative).map((one) => this.#giveBack(one))),
    ])
    // What only watches was charged beside, for a call that then was refused.
    if (!isAdmitted(enforced, decided)) this.#refund(watching, shadows)
    const parts = { enforced: 0, shadows: 0, negatives: 0 }
    return charges.map((charge) => {
      if (charge.isNegative) return negatives[parts.negatives++] as Judged
      if (charge.isShadow) return shadows[parts.shadows++] as Judged
      return decided[parts.enforced++] as Judged
    })
  }

  /**
   * Without quotas all or nothing. Quotas are asked for one by one beside the rest, so that those
   * with room are charged in the same round trip; what then was for nothing is given back.
   */
  async #enforce(charges: readonly PlanCharge[]): Promise<readonly Judged[]> {
    const quotas = charges.filter(({ isQuota }) => isQuota)
    if (quotas.length === 0) return this.#together(charges)
    const rest = charges.filter(({ isQuota }) => !isQuota)
    const [decidedQuotas, decidedRest] = await Promise.all([
      Promise.all(quotas.map((quota) => this.#alone(quota))),
      this.#together(rest),
    ])
    const isRefused = decidedRest.some(({ allowed }) => !allowed)
    const hasRoom = decidedQuotas.some(({ allowed }) => allowed)
    if (isRefused) this.#refund(quotas, decidedQuotas)
    else if (!hasRoom) this.#refund(rest, decidedRest)
    const isFree = !isRefused && hasRoom
    let [quotaAt, restAt] = [0, 0]
    return charges.map(({ isQuota }) => {
      const decision = isQuota ? decidedQuotas[quotaAt++] : decidedRest[restAt++]
      return isFree ? (decision as Judged) : uncharged(decision as Judged)
    })
  }

  async #together(charges: readonly PlanCharge[]): Promise<readonly Judged[]> {
    const [first] = charges
    if (first === undefined) return []
    if (charges.length === 1) return [await this.#alone(first)]
    const { store, isSpread } = this.#storeOf(first)
    const isOneStore = charges.every((charge) => this.#storeOf(charge).store === store)
    if (isOneStore && !isSpread) {
      const decided = store.charge(charges, 'all')
      if (decided instanceof Promise) return decided
      return decided.map((decision) => remembered(decision, store))
    }
    const decisions = await Promise.all(charges.map((charge) => this.#alone(charge)))
    if (decisions.every(({ allowed }) => allowed)) return decisions
    this.#refund(charges, decisions)
    return decisions.map(uncharged)
  }

  async #alone(charge: PlanCharge): Promise<Judged> {
    return this.#judgeOne(charge)
  }

  async #giveBack({ name, limit, key, cost, ...charge }: PlanCharge): Promise<Decision> {
    const { store } = this.#storeOf({ name, limit, key, cost, ...charge })
    const [decision] = await store.adjust([{ name, limit, key, units: -cost }])
    return decision as Decision
  }

  /** Nobody waits for it: the answer is known, and a refund that fails only counts too much. */
  #refund(charges: readonly PlanCharge[], decisions: readonly Decision[]): void {
    for (const [at, { name, limit, key, ...charge }] of charges.entries()) {
      const { granted = 0, degraded = null } = decisions[at] ?? {}
      if (granted === 0 || degraded !== null) continue
      const { store } = this.#storeOf({ name, limit, key, ...charge })
      Promise.resolve(store.adjust([{ name, limit, key, units: -granted }])).catch(() => undefined)
    }
  }

  #chargerOf(charge: PlanCharge): Charger {
    const known = this.#chargers.get(charge.counted)
    if (known !== undefined) return known
    const { store } = this.#storeOf(charge)
    const { name, limit } = charge
    const charger = store.charger?.(name, limit) ?? grouped(store, { name, limit })
    this.#chargers.set(charge.counted, charger)
    return charger
  }

  #storeOf({ counted }: PlanCharge): JudgeStore {
    const { main, perSecond } = this.#stores
    return perSecond !== undefined && counted.windowMs === SECOND_MS ? perSecond : main
  }
}

/** Whether a call with these decisions goes on, as far as its counters say. */
export function isAdmitted(
  charges: readonly PlanCharge[],
  decisions: readonly Decision[],
): boolean {
  let hasQuota = false
  let hasRoom = false
  for (const [at, { isQuota }] of charges.entries()) {
    const allowed = decisions[at]?.allowed === true
    if (!isQuota && !allowed) return false
    hasQuota ||= isQuota
    hasRoom ||= isQuota && allowed
  }
  return !hasQuota || hasRoom
}

function grouped(store: Store, counter: Pick<Charge, 'name' | 'limit'>): Charger {
  return async (key, cost) => {
    const [decision] = await store.charge([{ ...counter, key, cost }], 'all')
    return decision as Decision
  }
}

/** A remote store was not asked where the answer is there at once, and no guard has made it. */
function remembered(decision: Decision, { isRemote }: Store): Judged {
  const isKnown = isRemote && !decision.allowed && decision.degraded === null
  return isKnown ? { ...decision, isRemembered: true } : decision
}

/** What was granted and then given back. */
function uncharged(decision: Judged): Judged {
  const { allowed, granted, remaining } = decision
  return allowed ? { ...decision, granted: 0, remaining: remaining + granted } : decision
}
