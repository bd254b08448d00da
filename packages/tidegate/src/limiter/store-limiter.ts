/**
 * A limiter on a store: it resolves the limits of a call, charges one counter or a group, and
 * combines the decisions. It depends on no algorithm, and on the store only by its contract.
 */

import type { Limit } from '../algorithms/limit.ts'
import type { Clock } from '../clock.ts'
import type { Decision } from '../decision.ts'
import { invalid, TidegateError } from '../errors.ts'
import { DURATION_MS_MAX } from '../limits/duration.ts'
import { type Observer, safely } from '../observer.ts'
import { checkCall, checkWhole } from '../options.ts'
import { chargeSingle } from '../stores/charge-one.ts'
import type { Charge, Counter, HotKey, MaybePromise, Store } from '../stores/store.ts'
import { disabledStore } from './disabled-store.ts'
import { checkCost, isPlainKey, type KeyShape } from './keys.ts'
import type {
  CheckOptions,
  ContextOptions,
  CostOptions,
  Evaluation,
  Limiter,
  ReserveOptions,
} from './limiter.ts'
import { type Reservation, reservation, type Slot, slot } from './reservation.ts'
import { type WaitOptions, WaitQueue } from './wait-queue.ts'

export interface LimiterParts {
  readonly store: Store
  /** The store, if the limiter has to close it. */
  readonly owned: Store | undefined
  readonly clock: Clock
  readonly isEnabled: boolean
  /** Ends the registration of its limits on a store that it shares. */
  readonly unregister: (() => void) | undefined
}

interface OnlyLimit {
  readonly name: string
  readonly limit: Limit
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

/** Implements `Limiter` for both shapes of keys and any context. */
export class StoreLimiter<Keys, D extends Decision> implements Limiter<Keys, D> {
  readonly names: readonly string[]
  readonly layered: boolean
  readonly #shape: KeyShape<Keys, D, unknown>
  readonly #store: Store
  readonly #owned: Store | undefined
  readonly #unregister: (() => void) | undefined
  readonly #queue: WaitQueue<D>
  /** The only limit, if there is one and it is not a function: its counter needs no group. */
  readonly #only: OnlyLimit | undefined
  readonly #observer: Observer
  #isEnabled: boolean
  #isClosed = false

  constructor(
    shape: KeyShape<Keys, D, unknown>,
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
    const [rule] = shape.rules
    const [name] = shape.names
    const isPlain = typeof rule === 'object' && rule.algorithm !== 'concurrency'
    if (!shape.layered && isPlain && name !== undefined) this.#only = { name, limit: rule }
  }

  check(keys: Keys, options?: CheckOptions): Promise<D> {
    try {
      if (options !== undefined) checkCall(options, 'check', known.check)
      if (this.#only !== undefined && options?.partial !== true) {
        return Promise.resolve(this.#chargeOnly(this.#only, keys, options)) as Promise<D>
      }
      const group = this.#charges(keys, checkCost(options?.cost), options?.context)
      const decide = (charges: readonly Charge[]) => this.#charge(charges, 'check', options)
      const decisions = group instanceof Promise ? group.then(decide) : decide(group)
      if (decisions instanceof Promise) return decisions.then(this.#shape.combine)
      return Promise.resolve(this.#shape.combine(decisions))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  checkSync(keys: Keys, options?: CheckOptions): D {
    if (options !== undefined) checkCall(options, 'checkSync', known.check)
    if (this.#store.isRemote) {
      const message = 'checkSync needs the memory store, which answers immediately; use check'
      throw new TidegateError('wrong-use', message)
    }
    if (this.#only !== undefined && options?.partial !== true) {
      return this.#chargeOnly(this.#only, keys, options) as D
    }
    const group = this.#charges(keys, checkCost(options?.cost), options?.context)
    if (group instanceof Promise) {
      group.catch(() => undefined)
      throw asynchronousRule()
    }
    const decisions = this.#charge(group, 'checkSync', options)
    if (decisions instanceof Promise) throw asynchronousRule()
    return this.#shape.combine(decisions)
  }

  async peek(keys: Keys, options?: CostOptions): Promise<D> {
    checkCall(options, 'peek', known.peek)
    const group = await this.#charges(keys, checkCost(options?.cost), options?.context)
    return this.#shape.combine(await this.#active.charge(group, 'peek'))
  }

  async refund(keys: Keys, cost?: number, options?: ContextOptions): Promise<D> {
    checkCall(options, 'refund', known.others)
    const units = -checkCost(cost)
    const counters = refuseSlots(await this.#counters(keys, options?.context), 'refund')
    const group = counters.map((counter) => ({ ...counter, units }))
    return this.#shape.combine(await this.#active.adjust(group))
  }

  async reset(keys: Keys, options?: ContextOptions): Promise<void> {
    checkCall(options, 'reset', known.others)
    await this.#store.reset(await this.#counters(keys, options?.context))
  }

  async reserve(keys: Keys, cost: number, options?: ReserveOptions): Promise<Reservation<D>> {
    checkCall(options, 'reserve', known.reserve)
    const units = checkCost(cost)
    const { ttlMs = RESERVATION_TTL_MS_DEFAULT } = options ?? {}
    checkWhole(ttlMs, 'reserve.ttlMs', 1, DURATION_MS_MAX)
    const counters = await this.#counters(keys, options?.context)
    return reservation(this.#active, counters, units, ttlMs, this.#shape.combine)
  }

  async acquire(keys: Keys, options?: ContextOptions): Promise<Slot<D>> {
    checkCall(options, 'acquire', known.others)
    return slot(this.#active, await this.#counters(keys, options?.context), this.#shape.combine)
  }

  async wait(keys: Keys, options?: CostOptions & WaitOptions): Promise<D> {
    checkCall(options, 'wait', known.wait)
    const cost = checkCost(options?.cost)
    const context = options?.context === undefined ? undefined : { context: options.context }
    const call = { cost, ...context }
    // The attempts call the rules. The keys are checked here, because they identify the line.
    for (const at of this.names.keys()) this.#shape.keyOf(keys, at)
    const calls = {
      attempt: () => this.check(keys, call),
      peek: () => this.peek(keys, call),
      undo: () => this.refund(keys, cost, context),
    }
    return this.#queue.wait(this.#shape.label(keys), calls, options ?? {})
  }

  evaluate(keys: Keys, options?: CheckOptions): Promise<Evaluation<D>> {
    try {
      return Promise.resolve(this.evaluateNow(keys, options))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Like `evaluate`, but throws, and returns a promise only if the decision is not known
   * immediately. Middlewares call it: in memory a request then needs no promise.
   */
  evaluateNow(keys: Keys, options?: CheckOptions): MaybePromise<Evaluation<D>> {
    if (options !== undefined) checkCall(options, 'evaluate', known.check)
    const only = this.#only
    if (only !== undefined && options?.partial !== true) {
      const decision = this.#chargeOnly(only, keys, options)
      if (!(decision instanceof Promise)) return evaluationOf<D>(only, decision)
      return decision.then((one) => evaluationOf<D>(only, one))
    }
    const group = this.#charges(keys, checkCost(options?.cost), options?.context)
    if (!(group instanceof Promise)) return this.#evaluateGroup(group, options)
    return group.then((charges) => this.#evaluateGroup(charges, options))
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
    return this.#store.capabilities?.hotKeys?.() ?? []
  }

  async ready(): Promise<void> {
    await this.#store.capabilities?.ready?.()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#unregister?.()
    this.#queue.close()
    await this.#owned?.close()
  }

  /** The store, or the one that admits everything while limiting is off. */
  get #active(): Store {
    return this.#isEnabled ? this.#store : disabledStore
  }

  #chargeOnly(
    { name, limit }: OnlyLimit,
    keys: Keys,
    options: CheckOptions | undefined,
  ): MaybePromise<Decision> {
    if (this.#isClosed) throw closed()
    const key = isPlainKey(keys) ? keys : this.#shape.keyOf(keys, 0)
    const cost = options === undefined ? 1 : checkCost(options.cost)
    // Not by the getter, which would take 3 % of a decision in memory.
    const store = this.#isEnabled ? this.#store : disabledStore
    return chargeSingle(store, { name, limit, key }, cost)
  }

  #charge(
    group: readonly Charge[],
    call: string,
    options: CheckOptions | undefined,
  ): MaybePromise<readonly Decision[]> {
    refuseSlots(group, call)
    const [first] = group
    if (group.length !== 1 || first === undefined || options?.partial === true) {
      return this.#active.charge(group, options?.partial === true ? 'partial' : 'all')
    }
    const decision = chargeSingle(this.#active, first, first.cost)
    return decision instanceof Promise ? decision.then((one) => [one]) : [decision]
  }

  #evaluateGroup(
    group: readonly Charge[],
    options: CheckOptions | undefined,
  ): MaybePromise<Evaluation<D>> {
    const evaluation = (decisions: readonly Decision[]): Evaluation<D> => {
      const decisionAt = (at: number) => decisions[at] as Decision
      const applied = group.map(({ name, limit }, at) => ({
        name,
        limit,
        decision: decisionAt(at),
      }))
      return { decision: this.#shape.combine(decisions), applied }
    }
    const decisions = this.#charge(group, 'check', options)
    return decisions instanceof Promise ? decisions.then(evaluation) : evaluation(decisions)
  }

  #charges(keys: Keys, cost: number, context: unknown): MaybePromise<Charge[]> {
    const counters = this.#counters(keys, context)
    const charge = (counter: Counter) => ({ ...counter, cost })
    if (counters instanceof Promise) return counters.then((all) => all.map(charge))
    return counters.map(charge)
  }

  /** The counters of the keys; a promise only if a rule is asynchronous. */
  #counters(keys: Keys, context: unknown): MaybePromise<Counter[]> {
    if (this.#isClosed) throw closed()
    const texts = this.names.map((_, at) => this.#shape.keyOf(keys, at))
    const limits = this.#shape.rules.map((rule, at) => {
      return typeof rule === 'function' ? rule(texts[at] as string, context) : rule
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

/** A key within another. The length separates them, so that no two pairs are equal. */
function inner(within: string, key: string): string {
  return `${within.length}:${within}:${key}`
}

function isAllKnown(limits: ReadonlyArray<MaybePromise<Limit>>): limits is readonly Limit[] {
  return !limits.some((limit) => limit instanceof Promise)
}

/** Checks the value that a rule returned: limits have an algorithm. */
function checkLimit(limit: Limit, name: string): Limit {
  if (typeof limit === 'object' && limit !== null && 'algorithm' in limit) return limit
  const allowed = 'a limit made by tokenBucket, slidingWindow, slidingLog, fixedWindow, concurrency'
  throw invalid('invalid-option', { path: `limits.${name}`, value: limit, allowed })
}

/** The evaluation of a limiter with a single limit, whose decision is the limit's own. */
function evaluationOf<D extends Decision>(
  { name, limit }: OnlyLimit,
  decision: Decision,
): Evaluation<D> {
  const applied = [{ name, limit, decision }]
  return { decision: decision as D, applied }
}

function refuseSlots<C extends Counter>(group: readonly C[], call: string): readonly C[] {
  const slots = group.find(({ limit }) => limit.algorithm === 'concurrency')
  if (slots === undefined) return group
  const message = `${call}: limit ${slots.name} is a concurrency limit; use acquire and release`
  throw new TidegateError('wrong-use', message)
}

function asynchronousRule(): TidegateError {
  return new TidegateError('wrong-use', 'checkSync: the limit is asynchronous; use check')
}

function closed(): TidegateError {
  return new TidegateError('closed', 'the limiter was closed')
}
