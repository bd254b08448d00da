/**
 * The limiter: from keys and a cost to a decision. It resolves which limits apply, hands the store
 * one group of charges, and puts the answers together. It knows no algorithm and no store.
 */

import type { Limit } from './algorithms/limit.ts'
import { type Clock, systemClock } from './clock.ts'
import type { Decision, LayeredDecision } from './decision.ts'
import { invalid, TidegateError } from './errors.ts'
import { checkCost, isPlainKey, type KeyShape, layeredKeys, singleKey } from './keys.ts'
import { DURATION_MS_MAX } from './policy/duration.ts'
import type { LimitRule } from './policy/limits.ts'
import { checkCall, checkOptions, checkWhole } from './policy/options.ts'
import { type Reservation, reservation, type Slot, slot } from './reservation.ts'
import { memoryStore } from './stores/memory/memory-store.ts'
import type { Charge, ChargeMode, Counter, MaybePromise, Store } from './stores/store.ts'
import { type WaitOptions, WaitQueue } from './wait-queue.ts'

export interface LimiterOptions {
  /** Where the counters are. Default: this process's memory. */
  readonly store?: Store
  /** Default: the system's. */
  readonly clock?: Clock
}

export interface SingleLimitOptions<Context = unknown> extends LimiterOptions {
  readonly limit: Limit | LimitRule<Context>
  /** The limit's name, in headers and in shared stores. Default: `default`. */
  readonly name?: string
}

export interface LayeredLimitOptions<Name extends string, Context = unknown>
  extends LimiterOptions {
  /** Judged together, all or nothing. */
  readonly limits: Readonly<Record<Name, Limit | LimitRule<Context>>>
}

export interface ContextOptions<Context> {
  /** Passed to limits that are functions. */
  readonly context?: Context
}

export interface CostOptions<Context> extends ContextOptions<Context> {
  /** Whole units asked for; 0 only looks. Default: 1. */
  readonly cost?: number
}

export interface CheckOptions<Context> extends CostOptions<Context> {
  /** Grant what there is, instead of all or nothing. */
  readonly partial?: boolean
}

export interface ReserveOptions<Context> extends ContextOptions<Context> {
  /** How long the units stay set aside if nobody settles them. Default: one minute. */
  readonly ttlMs?: number
}

/** One limit as it applied to one decision. */
export interface AppliedLimit {
  readonly name: string
  readonly limit: Limit
  readonly decision: Decision
}

export interface Evaluation<D extends Decision> {
  readonly decision: D
  readonly applied: readonly AppliedLimit[]
}

export interface Limiter<Keys = string, D extends Decision = Decision, Context = unknown> {
  /** The names of its limits. */
  readonly names: readonly string[]
  /** Whether it takes one key per limit instead of a single key. */
  readonly layered: boolean
  /** Judges and charges. */
  check(keys: Keys, options?: CheckOptions<Context>): Promise<D>
  /** The same at once; only on the memory store, and only where no limit is asynchronous. */
  checkSync(keys: Keys, options?: CheckOptions<Context>): D
  /** What is left, and whether `cost` would be granted. Changes nothing. */
  peek(keys: Keys, options?: CostOptions<Context>): Promise<D>
  /** Gives units back, never below nothing used. */
  refund(keys: Keys, cost?: number, options?: ContextOptions<Context>): Promise<D>
  /** Forgets what was used and held. */
  reset(keys: Keys, options?: ContextOptions<Context>): Promise<void>
  /** Sets units aside until they are committed, cancelled, or their time is over. */
  reserve(keys: Keys, cost: number, options?: ReserveOptions<Context>): Promise<Reservation<D>>
  /** Takes a slot of each concurrency limit, and charges 1 to every other. */
  acquire(keys: Keys, options?: ContextOptions<Context>): Promise<Slot<D>>
  /**
   * Waits for its turn and resolves when admitted; denied if the time or the queue is too short.
   */
  wait(keys: Keys, options?: CostOptions<Context> & WaitOptions): Promise<D>
  /** As `check`, and tells which limits applied: what a middleware needs for its headers. */
  evaluate(keys: Keys, options?: CheckOptions<Context>): Promise<Evaluation<D>>
  close(): Promise<void>
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

export function createLimiter<Context = unknown>(
  options: SingleLimitOptions<Context>,
): Limiter<string, Decision, Context>
export function createLimiter<Name extends string, Context = unknown>(
  options: LayeredLimitOptions<Name, Context>,
): Limiter<Readonly<Record<Name, string>>, LayeredDecision<Name>, Context>
export function createLimiter<Context>(
  options: SingleLimitOptions<Context> | LayeredLimitOptions<string, Context>,
): unknown {
  checkOptions(options, 'createLimiter', ['limit', 'limits', 'name', 'store', 'clock'])
  if ('limit' in options && 'limits' in options) {
    const allowed = 'either limit or limits'
    throw invalid('invalid-option', {
      path: 'createLimiter.limits',
      value: options.limits,
      allowed,
    })
  }
  const { clock = systemClock } = options
  const owned = options.store === undefined ? memoryStore({ clock }) : undefined
  const store = options.store ?? (owned as Store)
  return 'limits' in options
    ? new StoreLimiter(layeredKeys(options.limits), store, owned, clock)
    : new StoreLimiter(singleKey(options.name ?? 'default', options.limit), store, owned, clock)
}

/** Keeps the promises of `Limiter` for both shapes of keys. */
class StoreLimiter<Keys, D extends Decision, Context> implements Limiter<Keys, D, Context> {
  readonly names: readonly string[]
  readonly layered: boolean
  readonly #shape: KeyShape<Keys, D, Context>
  readonly #store: Store
  readonly #owned: Store | undefined
  readonly #queue: WaitQueue<D>
  /** For a single limit that is no function, on a store that answers at once: needs no group. */
  readonly #charge: ((key: string, cost: number) => Decision) | undefined
  #isClosed = false

  constructor(
    shape: KeyShape<Keys, D, Context>,
    store: Store,
    owned: Store | undefined,
    clock: Clock,
  ) {
    this.#shape = shape
    this.names = shape.names
    this.layered = shape.layered
    this.#store = store
    this.#owned = owned
    this.#queue = new WaitQueue(clock)
    const rule = shape.rules[0]
    const isPlain = !shape.layered && typeof rule === 'object' && rule.algorithm !== 'concurrency'
    this.#charge = isPlain ? store.charger?.(shape.names[0] as string, rule) : undefined
  }

  check(keys: Keys, options?: CheckOptions<Context>): Promise<D> {
    try {
      if (options !== undefined) checkCall(options, 'check', known.check)
      if (this.#charge !== undefined && options?.partial !== true) {
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
    if (this.#charge !== undefined && options?.partial !== true) {
      return this.#checkOne(this.#charge, keys, options)
    }
    if (this.#store.charger === undefined) {
      const message = 'checkSync needs the memory store, which answers at once; use check'
      throw new TidegateError('wrong-use', message)
    }
    const group = this.#charges(keys, checkCost(options?.cost), options?.context)
    if (group instanceof Promise) {
      group.catch(() => undefined)
      throw asynchronousRule()
    }
    const decisions = this.#store.charge(refuseSlots(group, 'checkSync'), modeOf(options))
    if (decisions instanceof Promise) throw asynchronousRule()
    return this.#shape.combine(decisions)
  }

  async peek(keys: Keys, options?: CostOptions<Context>): Promise<D> {
    checkCall(options, 'peek', known.peek)
    const group = await this.#charges(keys, checkCost(options?.cost), options?.context)
    return this.#shape.combine(await this.#store.charge(group, 'peek'))
  }

  async refund(keys: Keys, cost?: number, options?: ContextOptions<Context>): Promise<D> {
    checkCall(options, 'refund', known.others)
    const units = -checkCost(cost)
    const counters = refuseSlots(await this.#counters(keys, options?.context), 'refund')
    const group = counters.map((counter) => ({ ...counter, units }))
    return this.#shape.combine(await this.#store.adjust(group))
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
    return reservation(this.#store, counters, units, ttlMs, this.#shape.combine)
  }

  async acquire(keys: Keys, options?: ContextOptions<Context>): Promise<Slot<D>> {
    checkCall(options, 'acquire', known.others)
    return slot(this.#store, await this.#counters(keys, options?.context), this.#shape.combine)
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
    const decisions = await this.#store.charge(refuseSlots(group, 'check'), modeOf(options))
    const applied = group.map(({ name, limit }, at) => ({
      name,
      limit,
      decision: decisions[at] as Decision,
    }))
    return { decision: this.#shape.combine(decisions), applied }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#queue.close()
    await this.#owned?.close()
  }

  #checkOne(
    charge: (key: string, cost: number) => Decision,
    keys: Keys,
    options: CheckOptions<Context> | undefined,
  ): D {
    if (this.#isClosed) throw closed()
    const key = isPlainKey(keys) ? keys : this.#shape.keyOf(keys, 0)
    return charge(key, options === undefined ? 1 : checkCost(options.cost)) as D
  }

  #judge(group: Charge[], options: CheckOptions<Context> | undefined): Promise<D> {
    const decisions = this.#store.charge(refuseSlots(group, 'check'), modeOf(options))
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
      found.map((limit, at) => ({
        name: this.names[at] as string,
        limit: checkLimit(limit, this.names[at] as string),
        key: texts[at] as string,
      }))
    return isAllKnown(limits) ? counters(limits) : Promise.all(limits).then(counters)
  }
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
