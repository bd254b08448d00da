/**
 * The options that every middleware takes. They are parsed once into complete, frozen settings, and
 * not checked again per request.
 */

import type { Limit } from '../algorithms/limit.ts'
import { type Clock, systemClock } from '../clock.ts'
import type { Decision } from '../decision.ts'
import { invalid, TidegateError } from '../errors.ts'
import { createLimiter } from '../limiter/create-limiter.ts'
import type { Evaluation, LimiterOptions } from '../limiter/limiter.ts'
import { limitName } from '../limits/limit-text.ts'
import type { LimitRule } from '../limits/limits.ts'
import { checkBoolean, checkFunction, checkOneOf, checkOptions, checkWhole } from '../options.ts'
import type { ClientIpOptions } from './client-ip.ts'
import { type HeaderDialect, headerDialects } from './headers.ts'

export type MaybePromise<T> = T | Promise<T>

type LimitOrRule<Request> = Limit | LimitRule<Request>

/** A key for every limit, or one per limit of a layered limiter. */
export type Keys = string | Readonly<Record<string, string>>

/** The result of a `key` function. If it finds no key, the client's IP is the key. */
export type FoundKeys =
  | string
  | null
  | undefined
  | Readonly<Record<string, string | null | undefined>>

/** The methods of a limiter that a guard needs; every `Limiter` has them. */
export interface GuardLimiter<Request> {
  readonly names: readonly string[]
  readonly layered: boolean
  evaluate(
    keys: Keys,
    options: { readonly cost: number; readonly context: Request },
  ): Promise<Evaluation<Decision>>
  refund(keys: Keys, cost: number, options: { readonly context: Request }): Promise<Decision>
}

/** How the limiter treats a remote store; only with `limit` or `limits`. */
type StoreOptions = Pick<LimiterOptions, 'deadlineMs' | 'onStoreError' | 'onOverload' | 'observer'>

/** `Request` is the framework's own: an Express or Fastify request, a Koa or Hono context. */
export interface GuardOptions<Request> extends ClientIpOptions, StoreOptions {
  /** A limiter, which may be shared. Exactly one of `limiter`, `limit` and `limits` is needed. */
  readonly limiter?: GuardLimiter<Request>
  /** A limit, or a function of the key and the request that returns one. */
  readonly limit?: LimitOrRule<Request>
  /** Several limits by name, charged together, all or nothing. */
  readonly limits?: Readonly<Record<string, LimitOrRule<Request>>>
  /**
   * The name of `limit`, in headers and in shared stores. Default: `default`. With a `store`, which
   * others may share, it is made of the limit's parameters, such as `100-per-1m`.
   */
  readonly name?: string
  /** With `limits`: the limit that the others belong to, see `LayeredLimitOptions`. */
  readonly within?: string
  /** With `within`: limits that do not belong to it. */
  readonly shared?: readonly string[]
  /** Where the counters of `limit` or `limits` are. Default: this process's memory. */
  readonly store?: NonNullable<LimiterOptions['store']>
  /**
   * Returns the key of the counter. Default, and if it finds none: the client's IP, for all limits.
   * `clientIp` returns that IP, for a key that combines it with something else.
   */
  readonly key?: (request: Request, clientIp: () => string) => MaybePromise<FoundKeys>
  /** Units that a request costs. Default: 1. */
  readonly cost?: number | ((request: Request) => MaybePromise<number>)
  /** Returns true for requests that are neither limited nor counted. */
  readonly skip?: (request: Request) => MaybePromise<boolean>
  /** Gives the cost back when the response was sent with a status of 400 or above. */
  readonly skipFailedRequests?: boolean
  /** Gives the cost back when the response was sent with a status below 400. */
  readonly skipSuccessfulRequests?: boolean
  /** Which rate limit header fields to send. Default: `both`. */
  readonly headers?: HeaderDialect
  /** Default: the system's. */
  readonly clock?: Clock
}

export interface GuardSettings<Request> {
  readonly limiter: GuardLimiter<Request>
  readonly key: ((request: Request, clientIp: () => string) => MaybePromise<FoundKeys>) | undefined
  readonly cost: number | ((request: Request) => MaybePromise<number>)
  readonly skip: ((request: Request) => MaybePromise<boolean>) | undefined
  readonly refundsFailed: boolean
  readonly refundsSuccessful: boolean
  readonly headers: HeaderDialect
  readonly clock: Clock
}

const storeOptions = ['deadlineMs', 'onStoreError', 'onOverload', 'observer'] as const

const known = [
  'limiter',
  'limit',
  'limits',
  'name',
  'within',
  'shared',
  'store',
  ...storeOptions,
  'key',
  'cost',
  'skip',
  'skipFailedRequests',
  'skipSuccessfulRequests',
  'handler',
  'headers',
  'trustProxy',
  'ipv6Prefix',
  'clock',
] as const

const limitOptions = ['limiter', 'limit', 'limits'] as const

/** The path of the options in messages. */
export const OPTIONS_PATH = 'tidegate'

/** The additional options of one middleware: functions, or one of several texts. */
export type OwnOptions = Readonly<Record<string, 'function' | readonly string[]>>

/** Refuses unknown options, and invalid options of one middleware. */
export function checkGuardOptions(options: object, own: OwnOptions): void {
  checkOptions(options, OPTIONS_PATH, [...known, ...Object.keys(own)])
  const shapes: OwnOptions = { handler: 'function', ...own }
  for (const [name, shape] of Object.entries(shapes)) {
    const value: unknown = Reflect.get(options, name)
    if (shape === 'function') checkFunction(value, `${OPTIONS_PATH}.${name}`)
    else if (value !== undefined) checkOneOf(value, `${OPTIONS_PATH}.${name}`, shape)
  }
}

export function parseGuardOptions<Request>(
  options: GuardOptions<Request>,
  own: OwnOptions,
): GuardSettings<Request> {
  checkGuardOptions(options, own)
  const path = OPTIONS_PATH
  const { cost = 1, clock = systemClock } = options
  return Object.freeze({
    limiter: limiterOf(options, path, clock),
    key: checkFunction(options.key, `${path}.key`),
    cost:
      typeof cost === 'function'
        ? cost
        : checkWhole(cost, `${path}.cost`, 0, Number.MAX_SAFE_INTEGER),
    skip: checkFunction(options.skip, `${path}.skip`),
    refundsFailed: checkBoolean(options.skipFailedRequests, `${path}.skipFailedRequests`),
    refundsSuccessful: checkBoolean(
      options.skipSuccessfulRequests,
      `${path}.skipSuccessfulRequests`,
    ),
    headers: checkOneOf(options.headers ?? 'both', `${path}.headers`, headerDialects),
    clock,
  })
}

/** True if one of the options that name a limit is set. */
export function hasLimit(options: Partial<Record<(typeof limitOptions)[number], unknown>>) {
  return limitOptions.some((name) => options[name] !== undefined)
}

function limiterOf<Request>(
  options: GuardOptions<Request>,
  path: string,
  clock: Clock,
): GuardLimiter<Request> {
  const kinds = limitOptions.filter((name) => options[name] !== undefined)
  if (kinds.length !== 1) {
    const allowed = 'exactly one of limiter, limit and limits'
    throw invalid('invalid-option', { path, value: kinds.join(', ') || undefined, allowed })
  }
  const { limiter, limit, limits, name, store } = options
  refuseBeside(limit === undefined ? name : undefined, `${path}.name`, 'a name only with limit')
  if (limiter !== undefined) {
    for (const option of ['store', 'within', 'shared', ...storeOptions] as const) {
      refuseBeside(options[option], `${path}.${option}`, 'only with limit or limits')
    }
    return checkLimiter(limiter, `${path}.limiter`)
  }
  const passed = { clock, ...ofStore(options) }
  if (limits !== undefined) {
    for (const rule of Object.values(limits)) refuseSlots(rule, path)
    return createLimiter({ limits, ...given(options, ['within', 'shared']), ...passed })
  }
  for (const option of ['within', 'shared'] as const) {
    refuseBeside(options[option], `${path}.${option}`, 'only with limits')
  }
  refuseSlots(limit, path)
  const rule = limit as LimitOrRule<Request>
  const ownName = name ?? (store === undefined ? undefined : nameOf(rule))
  const named = ownName === undefined ? undefined : { name: ownName }
  return createLimiter({ limit: rule, ...named, ...passed })
}

/**
 * Two middlewares on one store must not share counters because neither has a name. The order in
 * which they are made may differ between processes, so only the parameters distinguish them. The
 * parameters of a function are unknown.
 */
function nameOf<Request>(rule: LimitOrRule<Request>): string | undefined {
  return isLimit(rule) ? limitName(rule) : undefined
}

/** The limiter refuses values that are not limits. */
function isLimit(rule: unknown): rule is Limit {
  return typeof rule === 'object' && rule !== null && 'algorithm' in rule
}

/** The options of the store and of how it is treated that are set. */
export function ofStore(options: Pick<GuardOptions<never>, 'store' | keyof StoreOptions>) {
  return given(options, ['store', ...storeOptions])
}

/** Those of the options that are set. */
function given<O extends object, K extends keyof O>(options: O, names: readonly K[]) {
  const entries = names.map((name) => [name, options[name]] as const)
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as {
    [N in K]?: Exclude<O[N], undefined>
  }
}

/** Refuses an option that has no effect with the others. */
function refuseBeside(value: unknown, path: string, allowed: string): void {
  if (value !== undefined) throw invalid('invalid-option', { path, value, allowed })
}

function checkLimiter<Request>(limiter: GuardLimiter<Request>, path: string) {
  if (typeof limiter?.evaluate === 'function' && Array.isArray(limiter.names)) return limiter
  throw invalid('invalid-option', { path, value: limiter, allowed: 'a limiter of createLimiter' })
}

/** The limiter would refuse it too, but at the first request. */
function refuseSlots(rule: unknown, path: string): void {
  const { algorithm } = (rule ?? {}) as Partial<Limit>
  if (algorithm !== 'concurrency') return
  const message = `${path}: a middleware takes no concurrency limit; use acquire and release`
  throw new TidegateError('wrong-use', message)
}
