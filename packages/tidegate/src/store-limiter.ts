/**
 * A limiter on a store: it resolves which limits apply, hands the store one group of charges, and
 * puts the answers together. It knows no algorithm, and of the store only the contract.
 */

import type { Limit } from './algorithms/limit.ts'
import type { Clock } from './clock.ts'
import type { Decision } from './decision.ts'
import { invalid, TidegateError } from './errors.ts'
import { checkCost, isPlainKey, type KeyShape } from './keys.ts'
import type {
  CheckOptions,
  ContextOptions,
  CostOptions,
  Evaluation,
  Limiter,
  ReserveOptions,
} from './limiter.ts'
import { type Observer, safely } from './observer.ts'
import { DURATION_MS_MAX } from './policy/duration.ts'
import { checkCall, checkWhole } from './policy/options.ts'
import { type Reservation, reservation, type Slot, slot } from './reservation.ts'
import { admittingStore } from './stores/guarded/admitting-store.ts'
import type { HotKey } from './stores/leased/leased-store.ts'
import { SplitStore } from './stores/leased/split-store.ts'
import type { Charge, ChargeMode, Counter, MaybePromise, Store } from './stores/store.ts'
import { type WaitOptions, WaitQueue } from './wait-queue.ts'

export interface LimiterParts {
  readonly store: Store
  /** The store, where it is the limiter's own to close. */
  readonly owned: Store | undefined
  readonly clock: Clock
  readonly isEnabled: boolean
  /** Ends the registration of its limits on a store that it shares. */
  readonly unregister: (() => void) | undefined
}

const RESERVATION_TTL_MS_DEFAULT = 60_000

/** The options of each call. */
const known = {
  check: ['cost', 'partial', 'context'],
  peek: ['cost', 'context'],
  reserve: ['ttlMs', 'context'],
  wait: ['cost', 'timeoutMs', 'queueMax', 'signal', 'context'],
  others: ['context'],
} as const

/** Keeps the promises of `Limiter` for both shapes of keys. */
export class StoreLimiter<Keys, D extends Decision, Context> implements Limiter<Keys, D, Context> {
  readonly names: readonly string[]
  readonly layered: boolean
  readonly #shape: KeyShape<Keys, D, Context>
  readonly #store: Store
  readonly #owned: Store | undefined
  readonly #unregister: (() => void) | undefined
  readonly #queue: WaitQueue<D>
  /** For a single limit that is no function: needs no group. */
  readonly #charge: ((key: string, cost: number) => MaybePromise<Decision>) | undefined
  readonly #observer: Observer
  #isEnabled: boolean
  #isClosed = false

  constructor(
    shape: KeyShape<Keys, D, Context>,
    { store, owned, clock, isEnabled, unregister }: LimiterParts,
    observer: Observer | undefined,
  ) {
    this.#shape = shape
    this.names = shape.names
    this.layered = shape.layered
    this.#store = store
    this.#owned = owned
    this.#unregister = unregister
    this.#isEnabled = isEnabled
    this.#observer = safely(observer)
    this.#queue = new WaitQueue(clock)
    const rule = shape.rules[0]
    const isPlain = !shape.layered && typeof rule === 'object' && rule.algorithm !== 'concurrency'
    this.#charge = isPlain ? store.charger?.(shape.names[0] as string, rule) : undefined
  }

  check(keys: Keys, options?: CheckOptions<Context>): Promise<D> {
    try {
      if (options !== undefined) checkCall(options, 'check', known.check)
      if (this.#charge !== undefined && this.#isEnabled && options?.partial !== true) {
        return Promise.resolve(this.#checkOne(this.#charge, keys, options))
      }
      const group = this.#charges(keys, checkCost(options?.cost), options?.context)
      if (group instanceof Promise) return group.then((charges) => this.#judge(charges, options))
      return this.#judge(group, options)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  checkSync(keys: Keys, options?: CheckOptions<Context>): D {
    if (options !== undefined) checkCall(options, 'checkSync', known.check)
    if (this.#store.isRemote) {
      const message = 'checkSync needs the memory store, which answers at once; use check'
      throw new TidegateError('wrong-use', message)
    }
    if (this.#charge !== undefined && this.#isEnabled && options?.partial !== true) {
      return this.#checkOne(this.#charge, keys, options) as D
    }
    const group = this.#charges(keys, checkCost(options?.cost), options?.context)
    if (group instanceof Promise) {
      group.catch(() => undefined)
      throw asynchronousRule()
    }
    const decisions = this.#active.charge(refuseSlots(group, 'checkSync'), modeOf(options))
    if (decisions instanceof Promise) throw asynchronousRule()
    return this.#shape.combine(decisions)
  }

  async peek(keys: Keys, options?: CostOptions<Context>): Promise<D> {
    checkCall(options, 'peek', known.peek)
    const group = await this.#charges(keys, checkCost(options?.cost), options?.context)
    return this.#shape.combine(await this.#active.charge(group, 'peek'))
  }

  async refund(keys: Keys, cost?: number, options?: ContextOptions<Context>): Promise<D> {
    checkCall(options, 'refund', known.others)
    const units = -checkCost(cost)
    const counters = refuseSlots(await this.#counters(keys, options?.context), 'refund')
    const group = counters.map((counter) => ({ ...counter, units }))
    return this.#shape.combine(await this.#active.adjust(group))
  }

  async reset(keys: Keys, options?: ContextOptions<Context>): Promise<void> {
    checkCall(options, 'reset', known.others)
    await this.#store.reset(await this.#counters(keys, options?.context))
  }

  async reserve(
    keys: Keys,
    cost: number,
    options?: ReserveOptions<Context>,
  ): Promise<Reservation<D>> {
    checkCall(options, 'reserve', known.reserve)
    const units = checkCost(cost)
    const { ttlMs = RESERVATION_TTL_MS_DEFAULT } = options ?? {}
    checkWhole(ttlMs, 'reserve.ttlMs', 1, DURATION_MS_MAX)
    const counters = await this.#counters(keys, options?.context)
    return reservation(this.#active, counters, units, ttlMs, this.#shape.combine)
  }

  async acquire(keys: Keys, options?: ContextOptions<Context>): Promise<Slot<D>> {
    checkCall(options, 'acquire', known.others)
    return slot(this.#active, await this.#counters(keys, options?.context), this.#shape.combine)
  }

  async wait(keys: Keys, options?: CostOptions<Context> & WaitOptions): Promise<D> {
    checkCall(options, 'wait', known.wait)
    const cost = checkCost(options?.cost)
    const context = options?.context === undefined ? undefined : { context: options.context }
    const look = { cost, ...context }
    // Rules are asked by the attempts; here only the keys must be right, to tell lines apart.
    for (const at of this.names.keys()) this.#shape.keyOf(keys, at)
    const calls = {
      attempt: () => this.check(keys, look),
      look: () => this.peek(keys, look),
      undo: () => this.refund(keys, cost, context),
    }
    return this.#queue.wait(this.#shape.label(keys), calls, options ?? {})
  }

  async evaluate(keys: Keys, options?: CheckOptions<Context>): Promise<Evaluation<D>> {
    checkCall(options, 'evaluate', known.check)
    const group = await this.#charges(keys, checkCost(options?.cost), options?.context)
    const decisions = await this.#active.charge(refuseSlots(group, 'check'), modeOf(options))
    const applied = group.map(({ name, limit }, at) => ({
      name,
      limit,
      decision: decisions[at] as Decision,
    }))
    return { decision: this.#shape.combine(decisions), applied }
  }

  get enabled(): boolean {
    return this.#isEnabled
  }

  setEnabled(enabled: boolean): void {
    if (typeof enabled !== 'boolean') {
      const allowed = 'true or false'
      throw invalid('invalid-option', { path: 'setEnabled', value: enabled, allowed })
    }
    if (enabled === this.#isEnabled) return
    this.#isEnabled = enabled
    this.#observer({ type: 'enabled', enabled })
  }

  hotKeys(): readonly HotKey[] {
    return this.#store instanceof SplitStore ? this.#store.hotKeys() : []
  }

  async ready(): Promise<void> {
    await this.#store.ready?.()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#unregister?.()
    this.#queue.close()
    await this.#owned?.close()
  }

  /** The store, or while limiting is off the one that admits everything. */
  get #active(): Store {
    return this.#isEnabled ? this.#store : admittingStore
  }

  #checkOne(
    charge: (key: string, cost: number) => MaybePromise<Decision>,
    keys: Keys,
    options: CheckOptions<Context> | undefined,
  ): MaybePromise<D> {
    if (this.#isClosed) throw closed()
    const key = isPlainKey(keys) ? keys : this.#shape.keyOf(keys, 0)
    return charge(key, options === undefined ? 1 : checkCost(options.cost)) as MaybePromise<D>
  }

  #judge(group: Charge[], options: CheckOptions<Context> | undefined): Promise<D> {
    const decisions = this.#active.charge(refuseSlots(group, 'check'), modeOf(options))
    if (decisions instanceof Promise) return decisions.then(this.#shape.combine)
    return Promise.resolve(this.#shape.combine(decisions))
  }

  #charges(keys: Keys, cost: number, context: Context | undefined): MaybePromise<Charge[]> {
    const counters = this.#counters(keys, context)
    const charge = (counter: Counter) => ({ ...counter, cost })
    if (counters instanceof Promise) return counters.then((all) => all.map(charge))
    return counters.map(charge)
  }

  /** The counters that the keys stand for; a promise only where a rule is asynchronous. */
  #counters(keys: Keys, context: Context | undefined): MaybePromise<Counter[]> {
    if (this.#isClosed) throw closed()
    const texts = this.names.map((_, at) => this.#shape.keyOf(keys, at))
    const limits = this.#shape.rules.map((rule, at) => {
      return typeof rule === 'function' ? rule(texts[at] as string, context as Context) : rule
    })
    const counters = (found: readonly Limit[]) =>
      found.map((limit, at) => {
        const name = this.names[at] as string
        const key = texts[at] as string
        const counter = { name, limit: checkLimit(limit, name), key }
        const within = this.#shape.withinOf?.(keys, at)
        return within === undefined ? counter : { ...counter, key: inner(within, key), within }
      })
    return isAllKnown(limits) ? counters(limits) : Promise.all(limits).then(counters)
  }
}

/** A key within another. The length tells where that ends, so that no two pairs are the same. */
function inner(within: string, key: string): string {
  return `${within.length}:${within}:${key}`
}

function isAllKnown(limits: ReadonlyArray<MaybePromise<Limit>>): limits is readonly Limit[] {
  return !limits.some((limit) => limit instanceof Promise)
}

/** What a rule returned; that it is one of ours shows by its algorithm. */
function checkLimit(limit: Limit, name: string): Limit {
  if (typeof limit === 'object' && limit !== null && 'algorithm' in limit) return limit
  const allowed = 'a limit made by tokenBucket, slidingWindow, slidingLog, fixedWindow, concurrency'
  throw invalid('invalid-option', { path: `limits.${name}`, value: limit, allowed })
}

function refuseSlots<C extends Counter>(group: C[], call: string): C[] {
  const slots = group.find(({ limit }) => limit.algorithm === 'concurrency')
  if (slots === undefined) return group
  const message = `${call}: limit ${slots.name} is a concurrency limit; use acquire and release`
  throw new TidegateError('wrong-use', message)
}

function modeOf(options: CheckOptions<unknown> | undefined): ChargeMode {
  return options?.partial === true ? 'partial' : 'all'
}

function asynchronousRule(): TidegateError {
  return new TidegateError('wrong-use', 'checkSync: the limit is asynchronous; use check')
}

function closed(): TidegateError {
  return new TidegateError('closed', 'the limiter was closed')
}
