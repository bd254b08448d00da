/**
 * Groups of several charges with leases: units that a lease holds are spent first, the store
 * decides about the rest in one step, and the spent units are put back if it denies.
 */

import { steadyClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import type { Charge, MaybePromise, Store } from '../store.ts'
import { Denials, type DenialsByKey } from './denials.ts'
import type { HotLimits } from './hot-limits.ts'

/** Leases that a charge requests in vain, because others spend them first, before it is denied. */
const ATTEMPTS_MAX = 16

/** Retry hint for such a denial. */
const BUSY_RETRY_MS = 10

export class LeasedGroups {
  readonly #store: Store
  readonly #limits: HotLimits
  readonly denials = new Denials()
  readonly #denied: DenialsByKey = new Map()

  constructor(store: Store, limits: HotLimits) {
    this.#store = store
    this.#limits = limits
  }

  /** Decides about a group without holds, in the mode `all`. */
  charge(group: readonly Charge[]): MaybePromise<readonly Decision[]> {
    const nowMs = steadyClock.now()
    const label = this.#label(group)
    const question = { limits: group.map(({ limit }) => limit), cost: group[0]?.cost ?? 0 }
    const denied = this.denials.find(this.#denied, label, question, nowMs)
    if (denied !== undefined) return denied
    const spent = group.map((charge) => this.#spend(charge, nowMs))
    const rest = group.filter((_, at) => spent[at] === undefined)
    if (rest.length === 0) return spent as Decision[]
    return this.#chargeRest(group, spent, rest, label)
  }

  async #chargeRest(
    group: readonly Charge[],
    spent: (Decision | undefined)[],
    rest: readonly Charge[],
    label: string,
  ): Promise<readonly Decision[]> {
    const sentMs = steadyClock.now()
    const { leases, sameShard } = this.#store.capabilities ?? {}
    // Counters outside of `within` take part by a lease, so that the others are one step.
    const hasWithin = rest.some(({ within }) => within !== undefined)
    const isSharded = hasWithin && sameShard?.(rest) === false
    const apart = isSharded && leases === true ? rest.filter(isApart) : []
    try {
      for (const charge of apart) spent[group.indexOf(charge)] = await this.#spendApart(charge)
      const others = group.filter((_, at) => spent[at] === undefined)
      const isDenied = spent.some((decision) => decision?.allowed === false)
      const decided =
        others.length === 0 ? [] : await this.#store.charge(others, isDenied ? 'peek' : 'all')
      for (const [at, charge] of others.entries()) {
        this.#learn(charge, decided[at] as Decision)
        spent[group.indexOf(charge)] ??= decided[at]
      }
      const decisions = spent as Decision[]
      if (decisions.every(({ allowed }) => allowed)) return decisions
      const result = this.#undo(group, decisions, others)
      const times = { sentMs, nowMs: steadyClock.now() }
      const question = { limits: group.map(({ limit }) => limit), cost: group[0]?.cost ?? 0 }
      const onCalls = (calls: number, nowMs: number) => this.#count(group, calls, nowMs)
      this.denials.add(this.#denied, label, question, result, times, onCalls)
      return result
    } catch (error) {
      this.#undo(group, spent, rest)
      throw error
    }
  }

  /** Spends from a lease of a counter that is on another shard than the rest of its group. */
  async #spendApart({ name, limit, key, cost }: Charge): Promise<Decision> {
    const { leased } = this.#limits.of(name, limit)
    this.#limits.startSweep()
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const { decision } = await leased.require({ name, limit, key }, cost, steadyClock.now())
      const spent = leased.spend(limit, key, cost, steadyClock.now())
      if (spent !== undefined) return spent
      if (decision === undefined || decision.degraded !== null) {
        const [degraded] = await this.#store.charge([{ name, limit, key, cost }], 'all')
        return degraded as Decision
      }
      if (decision.granted < cost && decision.remaining < cost) break
    }
    const [peeked] = await this.#store.charge([{ name, limit, key, cost }], 'peek')
    const { allowed, retryAfterMs, ...rest } = peeked as Decision
    return { ...rest, allowed: false, retryAfterMs: allowed ? BUSY_RETRY_MS : retryAfterMs }
  }

  /** Puts units that were spent from leases back, for a group that was denied. */
  #undo(
    group: readonly Charge[],
    decisions: readonly (Decision | undefined)[],
    asked: readonly Charge[],
  ): Decision[] {
    return group.map((charge, at) => {
      const decision = decisions[at] as Decision
      if (decision === undefined || asked.includes(charge) || !decision.allowed) return decision
      if (decision.granted === 0 || decision.degraded !== null) return decision
      this.#limits.of(charge.name, charge.limit).leased.unspend(charge.key, charge.cost)
      return { ...decision, granted: 0, remaining: decision.remaining + charge.cost }
    })
  }

  /** Spends from a lease if there is one; otherwise requests one if the key is hot. */
  #spend(charge: Charge, nowMs: number): Decision | undefined {
    const { name, limit, key, cost } = charge
    if (cost === 0 || !this.#limits.isLeasable(limit)) return undefined
    const { leased } = this.#limits.of(name, limit)
    const decision = leased.spend(limit, key, cost, nowMs)
    if (decision === undefined && leased.ask(charge, nowMs) !== undefined) {
      this.#limits.startSweep()
    }
    return decision
  }

  #count(group: readonly Charge[], calls: number, nowMs: number): void {
    for (const { name, limit, key } of group) {
      if (this.#limits.isLeasable(limit))
        this.#limits.of(name, limit).leased.count(key, calls, nowMs)
    }
  }

  #learn({ name, limit, key }: Charge, decision: Decision): void {
    if (this.#limits.isLeasable(limit))
      this.#limits.of(name, limit).leased.learn(limit, key, decision)
  }

  /** Groups of the same counters with different costs have different labels. */
  #label(group: readonly Charge[]): string {
    const label = group.map((charge) => this.#limits.label(charge)).join('\0\0')
    const isEven = group.every(({ cost }) => cost === group[0]?.cost)
    return isEven ? label : `${label}\0\0${group.map(({ cost }) => cost).join(' ')}`
  }
}

/** True for counters outside of `within`, which may be on any shard. */
function isApart({ within, limit }: Charge): boolean {
  return within === undefined && limit.algorithm !== 'slidingLog'
}
