/**
 * The leased store: a store in front of a store that answers for hot keys itself, and is still
 * exact. It knows nothing of what is behind it but the contract.
 *
 * What is denied until some moment is denied here until then. Of a key that comes often, it takes a
 * block of units that the store has set aside, and spends it without asking. Groups are all or
 * nothing: what can be spent here is taken first and put back if the store denies the rest.
 *
 * Not for sliding logs, whose requests must be logged one by one, and not for concurrency; both
 * always go to the store.
 */

import type { Limit } from '../../algorithms/limit.ts'
import { repeat, steadyClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { type Observer, safely } from '../../observer.ts'
import type { Adjustment, Charge, ChargeMode, Counter, MaybePromise, Store } from '../store.ts'
import { Denials } from './denials.ts'
import type { HeavyHitter } from './heavy-hitters.ts'
import { LeasedCounters, type LeaseState } from './leased-counters.ts'
import { SingleAsker } from './single-asker.ts'
import { SyncReports } from './sync-reports.ts'
import { SYNC_MS, SyncedCounters } from './synced-counters.ts'

/** A key that is asked for often, and how often in the last second. */
export interface HotKey extends HeavyHitter {
  /** The name of its limit. */
  readonly name: string
}

/** How often blocks that are not needed are looked for. */
const SWEEP_MS = 50

/** From here on a key is told to the observer. */
const ALERT_PER_SECOND = 10_000

/** And at most so often each. */
const ALERT_INTERVAL_MS = 1_000

/** Keys whose last alert is remembered. */
const ALERTS_MAX = 1_024

const HOT_KEYS = 10

/** Blocks that a request asks for in vain, because others were faster, before it is denied. */
const ATTEMPTS_MAX = 16

/** What it is told to wait then. */
const BUSY_RETRY_MS = 10

export class LeasedStore implements Store {
  readonly isRemote = true
  readonly #store: Store
  readonly #observer: Observer
  readonly #denials = new Denials()
  readonly #groupDenials = new Denials()
  readonly #counters = new Map<string, LeasedCounters>()
  readonly #alertMs = new Map<string, number>()
  readonly #state: LeaseState
  readonly #synced = new Map<string, SyncedCounters>()
  readonly #reports: SyncReports
  #stopSweep: (() => void) | undefined
  #stopSync: (() => void) | undefined

  constructor(store: Store, observer: Observer | undefined) {
    this.#store = store
    this.#observer = safely(observer)
    this.#reports = new SyncReports(store)
    this.#state = {
      learningUntilMs: 0,
      onHot: (name, key, perSecond) => this.#onHot(name, key, perSecond),
    }
  }

  charger(name: string, limit: Limit): (key: string, cost: number) => MaybePromise<Decision> {
    const charge = this.#store.charger?.(name, limit)
    if (charge === undefined || !isKept(limit)) {
      return charge ?? ((key, cost) => this.#single({ name, limit, key, cost }))
    }
    if (isSynced(limit)) return this.#syncedCharger(name, limit, charge)
    const counters = this.#isLeasable(limit) ? this.#countersOf(name, limit) : undefined
    const start = `${limit.algorithm}\0${name}\0`
    const parts = { store: this.#store, name, limit, labelStart: start, denials: this.#denials }
    const asker = new SingleAsker({ ...parts, counters }, charge)
    return (key, cost) => {
      const nowMs = steadyClock.now()
      const spent = counters?.spend(limit, key, cost, nowMs)
      if (spent !== undefined) return spent
      if (this.#denials.size > 0) {
        const denied = this.#denials.findOne(start + key, limit, cost, nowMs)
        if (denied !== undefined) return denied
      }
      // Nobody waits for a block: it is for those who come after, and one deadline is enough.
      if (counters?.ask({ name, limit, key }, nowMs) !== undefined) this.#startSweep()
      return asker.ask(key, cost, nowMs)
    }
  }

  charge(group: readonly Charge[], mode: ChargeMode): MaybePromise<readonly Decision[]> {
    if (mode === 'peek') return this.#peek(group)
    const isPlain = group.every(({ hold, settles }) => hold === undefined && settles === undefined)
    if (mode !== 'all' || !isPlain || !group.some(({ limit }) => isKept(limit))) {
      return this.#store.charge(group, mode)
    }
    const nowMs = steadyClock.now()
    const label = groupLabelOf(group)
    const question = { limits: group.map(({ limit }) => limit), cost: group[0]?.cost ?? 0 }
    const denied = this.#groupDenials.find(label, question, nowMs)
    if (denied !== undefined) return denied
    const spent = group.map((charge) => this.#spend(charge, nowMs))
    const rest = group.filter((_, at) => spent[at] === undefined)
    if (rest.length === 0) return spent as Decision[]
    return this.#chargeRest(group, spent, rest, label)
  }

  adjust(group: readonly Adjustment[]): MaybePromise<readonly Decision[]> {
    this.#forgive(group)
    return this.#store.adjust(group)
  }

  reset(group: readonly Counter[]): MaybePromise<void> {
    this.#forgive(group)
    for (const { name, limit, key } of group) {
      this.#countersOf(name, limit).forget(key)
      this.#syncedOf(name, limit).forget(key)
    }
    return this.#store.reset(group)
  }

  /** Gives back what is in blocks. */
  async close(): Promise<void> {
    this.#stopSweep?.()
    this.#stopSweep = undefined
    this.#stopSync?.()
    this.#stopSync = undefined
    const nowMs = steadyClock.now()
    await Promise.all([...this.#counters.values()].map((counters) => counters.settle(nowMs)))
    await this.#reports.finish()
    await this.#store.close()
  }

  async ready(timeoutMs?: number): Promise<void> {
    await this.#store.ready?.(timeoutMs)
  }

  /** The keys that were asked for most often within the last second, the most first. */
  hotKeys(): HotKey[] {
    const nowMs = steadyClock.now()
    this.#denials.tellCalls(nowMs)
    this.#groupDenials.tellCalls(nowMs)
    const all = [...this.#counters.values()].flatMap((counters) => counters.top(HOT_KEYS, nowMs))
    return all.sort((one, other) => other.perSecond - one.perSecond).slice(0, HOT_KEYS)
  }

  async #single(charge: Charge): Promise<Decision> {
    const [decision] = await this.charge([charge], 'all')
    return decision as Decision
  }

  /** Counted here; only what is not known yet is asked of the store. */
  #syncedCharger(
    name: string,
    limit: Limit,
    charge: (key: string, cost: number) => MaybePromise<Decision>,
  ): (key: string, cost: number) => MaybePromise<Decision> {
    const counters = this.#syncedOf(name, limit)
    return (key, cost) => {
      const decision = counters.decide(limit, key, cost, steadyClock.now())
      if (decision !== undefined) return decision
      this.#stopSync ??= repeat(() => this.#sync(), SYNC_MS)
      return Promise.resolve(charge(key, cost)).then((asked) => {
        counters.learn({ name, limit, key }, asked, steadyClock.now())
        return asked
      })
    }
  }

  #sync(): void {
    this.#reports.send()
    const nowMs = steadyClock.now()
    let size = 0
    for (const counters of this.#synced.values()) {
      counters.sweep(nowMs)
      size += counters.size
    }
    if (size > 0) return
    this.#stopSync?.()
    this.#stopSync = undefined
  }

  #syncedOf(name: string, { algorithm }: Limit): SyncedCounters {
    const id = `${algorithm}\0${name}`
    const known = this.#synced.get(id)
    if (known !== undefined) return known
    const counters = new SyncedCounters(this.#reports)
    this.#synced.set(id, counters)
    return counters
  }

  /** What is not in blocks is asked of the store, in one step; if it denies, nothing was spent. */
  async #chargeRest(
    group: readonly Charge[],
    spent: (Decision | undefined)[],
    rest: readonly Charge[],
    label: string,
  ): Promise<readonly Decision[]> {
    const sentMs = steadyClock.now()
    // Beside limits that lie within another, a shared one takes part by a block.
    const isShared = rest.some(({ within }) => within !== undefined)
    const isApartGroup = isShared && this.#store.liesTogether?.(rest) === false
    const apart = isApartGroup && this.#store.canLease ? rest.filter(isApart) : []
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
      this.#groupDenials.add(label, question, result, times, onCalls)
      return result
    } catch (error) {
      this.#undo(group, spent, rest)
      throw error
    }
  }

  /** A counter that lies apart from the rest of its group takes part by a block. */
  async #spendApart({ name, limit, key, cost }: Charge): Promise<Decision> {
    const counters = this.#countersOf(name, limit)
    this.#startSweep()
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const { decision } = await counters.require({ name, limit, key }, cost, steadyClock.now())
      const spent = counters.spend(limit, key, cost, steadyClock.now())
      if (spent !== undefined) return spent
      if (decision === undefined || decision.degraded !== null) {
        const [degraded] = await this.#store.charge([{ name, limit, key, cost }], 'all')
        return degraded as Decision
      }
      if (decision.granted < cost && decision.remaining < cost) break
    }
    const [look] = await this.#store.charge([{ name, limit, key, cost }], 'peek')
    const { allowed, retryAfterMs, ...rest } = look as Decision
    return { ...rest, allowed: false, retryAfterMs: allowed ? BUSY_RETRY_MS : retryAfterMs }
  }

  /** Puts back what was spent from blocks for a group that was denied. */
  #undo(
    group: readonly Charge[],
    decisions: readonly (Decision | undefined)[],
    asked: readonly Charge[],
  ): Decision[] {
    return group.map((charge, at) => {
      const decision = decisions[at] as Decision
      if (decision === undefined || asked.includes(charge) || !decision.allowed) return decision
      if (decision.granted === 0 || decision.degraded !== null) return decision
      this.#countersOf(charge.name, charge.limit).unspend(charge.key, charge.cost)
      return { ...decision, granted: 0, remaining: decision.remaining + charge.cost }
    })
  }

  /** From a block, where there is one. Hot keys are noticed, and a block is asked for. */
  #spend(charge: Charge, nowMs: number): Decision | undefined {
    if (!this.#isLeasable(charge.limit) || charge.cost === 0) return undefined
    const counters = this.#countersOf(charge.name, charge.limit)
    const decision = counters.spend(charge.limit, charge.key, charge.cost, nowMs)
    if (decision !== undefined) return decision
    const { name, limit, key, within } = charge
    const counter = { name, limit, key, ...(within !== undefined && { within }) }
    if (counters.ask(counter, nowMs) !== undefined) this.#startSweep()
    return undefined
  }

  #count(group: readonly Charge[], calls: number, nowMs: number): void {
    for (const { name, limit, key } of group) {
      if (this.#isLeasable(limit)) this.#countersOf(name, limit).count(key, calls, nowMs)
    }
  }

  #learn({ name, limit, key }: Charge, decision: Decision): void {
    if (this.#isLeasable(limit)) this.#countersOf(name, limit).learn(limit, key, decision)
  }

  /** Units in a block of this process are there for it. */
  async #peek(group: readonly Charge[]): Promise<readonly Decision[]> {
    const decisions = await this.#store.charge(group, 'peek')
    return decisions.map((decision, at) => {
      const { name, limit, key, cost } = group[at] as Charge
      const left = this.#countersOf(name, limit).leftOf(key)
      if (left === 0) return decision
      const allowed = decision.allowed || cost <= left
      const remaining = decision.remaining + left
      return { ...decision, remaining, allowed, retryAfterMs: allowed ? 0 : decision.retryAfterMs }
    })
  }

  /** What was denied may be granted again. */
  #forgive(group: readonly Counter[]): void {
    for (const counter of group) this.#denials.forget(labelOf(counter))
    this.#groupDenials.clear()
  }

  #countersOf(name: string, { algorithm }: Limit): LeasedCounters {
    const id = `${algorithm}\0${name}`
    const known = this.#counters.get(id)
    if (known !== undefined) return known
    const counters = new LeasedCounters(this.#store, name, this.#state)
    this.#counters.set(id, counters)
    return counters
  }

  #isLeasable(limit: Limit): boolean {
    return this.#store.canLease === true && isKept(limit) && limit.algorithm !== 'slidingLog'
  }

  #startSweep(): void {
    this.#stopSweep ??= repeat(() => this.#sweep(), SWEEP_MS)
  }

  #sweep(): void {
    const nowMs = steadyClock.now()
    let size = 0
    for (const counters of this.#counters.values()) {
      counters.sweep(nowMs)
      size += counters.size
    }
    if (size > 0) return
    this.#stopSweep?.()
    this.#stopSweep = undefined
  }

  #onHot(name: string, key: string, perSecond: number): void {
    if (perSecond < ALERT_PER_SECOND) return
    const label = `${name}\0${key}`
    const nowMs = steadyClock.now()
    if (nowMs - (this.#alertMs.get(label) ?? Number.NEGATIVE_INFINITY) < ALERT_INTERVAL_MS) return
    if (this.#alertMs.size >= ALERTS_MAX) this.#alertMs.clear()
    this.#alertMs.set(label, nowMs)
    this.#observer({ type: 'hot', limit: name, key, perSecond: Math.round(perSecond) })
  }
}

/** Whether anything of it may be answered here. */
function isKept({ algorithm, accuracy }: Limit): boolean {
  return algorithm !== 'concurrency' && accuracy !== 'exact'
}

function isSynced({ accuracy, algorithm }: Limit): boolean {
  return accuracy === 'synced' && algorithm !== 'concurrency'
}

/** Counters that belong to everybody, and lie wherever they lie. */
function isApart({ within, limit }: Charge): boolean {
  return within === undefined && limit.algorithm !== 'slidingLog'
}

/** What one group was denied says nothing of another with other costs for each. */
function groupLabelOf(group: readonly Charge[]): string {
  const label = group.map((charge) => labelOf(charge)).join('\0\0')
  const isEven = group.every(({ cost }) => cost === group[0]?.cost)
  return isEven ? label : `${label}\0\0${group.map(({ cost }) => cost).join(' ')}`
}

function labelOf({ name, limit, key }: Counter): string {
  return `${limit.algorithm}\0${name}\0${key}`
}
