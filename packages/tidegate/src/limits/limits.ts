/**
 * A limit: an algorithm and its parameters, checked once. The five functions here are the public
 * way to make one. If `limit` is a function of the key and a context (plans, per-user limits),
 * they make a rule that is called for each decision.
 */

import { type CalendarUnit, calendarUnits } from '../algorithms/calendar.ts'
import { HOLDS_MAX } from '../algorithms/holds.ts'
import { type Accuracy, accuracies, type Limit } from '../algorithms/limit.ts'
import { LOG_COST_MAX } from '../algorithms/sliding-log.ts'
import { tokenBucketParams } from '../algorithms/token-bucket.ts'
import { type FailureMode, failureModes, type OverloadMode, overloadModes } from '../decision.ts'
import { invalid } from '../errors.ts'
import { checkOneOf, checkOptions, checkWhole } from '../options.ts'
import { type Duration, parseDuration } from './duration.ts'

/** A limit that depends on the key. `context` is the value that the caller passed to `check`. */
export type LimitRule<Context = unknown> = (key: string, context: Context) => Limit | Promise<Limit>

/** Units per period, or a function that returns them for a key. */
export type Units<Context> = number | ((key: string, context: Context) => number | Promise<number>)

interface OnStore {
  /** Applies while the store does not answer. Default: the limiter's, else `open`. */
  readonly onStoreError?: FailureMode
  /** Applies to calls that cannot be decided in time. Default: the limiter's, else `shed`. */
  readonly onOverload?: OverloadMode
  /** `exact` makes every decision the store's own, also for hot keys. Default: `leased`. */
  readonly accuracy?: Accuracy
  /** Number of parts of each counter, on several servers of a cluster. Default: 1. */
  readonly split?: number
}

interface Per<U> extends OnStore {
  /** Units per period. 0 blocks every request. */
  readonly limit: U
  readonly per: Duration
}

export interface TokenBucketOptions<U = number> extends Per<U> {
  /** Capacity: the most units at once. Default: `limit`. */
  readonly burst?: number
}

export interface FixedWindowOptions<U = number> extends OnStore {
  readonly limit: U
  readonly per: Duration | CalendarUnit
  /** For calendar windows, an IANA name such as `Europe/Berlin`. Default: `UTC`. */
  readonly timeZone?: string
}

export interface ConcurrencyOptions<U = number> extends OnStore {
  /** The most in flight at once. */
  readonly limit: U
  /** After this, a slot that was not released is free again. */
  readonly ttl: Duration
}

/**
 * A level stays below this, twice over for an overdraft, so that all its arithmetic is exact in the
 * 53 bits of a number.
 */
const UNITS_MAX = 2 ** 51

/**
 * A bucket that holds up to `burst` units and refills continuously, at `limit` units per `per`. It
 * admits bursts and holds the average rate. Use it for most APIs.
 *
 * ```ts
 * tokenBucket({ limit: 100, per: '1m', burst: 20 })
 * ```
 */
export function tokenBucket(options: TokenBucketOptions): Limit
/** A `tokenBucket` whose `limit` is a function of the key and the context of a call. */
export function tokenBucket<C>(options: TokenBucketOptions<Units<C>>): LimitRule<C>
export function tokenBucket<C>(options: TokenBucketOptions<Units<C>>): Limit | LimitRule<C> {
  return limitOrRule('tokenBucket', ['limit', 'per', 'burst'], options, (limit, path) => {
    const perMs = parseDuration(options.per, `${path}.per`)
    const burst =
      options.burst === undefined ? limit : checkWhole(options.burst, `${path}.burst`, 1, UNITS_MAX)
    const params = tokenBucketParams(limit, perMs, burst)
    if (params.burst * params.unitsPerToken < UNITS_MAX) return params
    const allowed = 'a limit, burst and period small or round enough to be counted exactly in 2^51'
    throw invalid('invalid-option', { path, value: `${limit} per ${perMs} ms`, allowed })
  })
}

/**
 * At most `limit` units per `per`, estimated from two counters: the previous window counts by the
 * part of it that still overlaps the trailing period. It smooths the edges of `fixedWindow`.
 *
 * ```ts
 * slidingWindow({ limit: 1000, per: '1h' })
 * ```
 */
export function slidingWindow(options: Per<number>): Limit
/** A `slidingWindow` whose `limit` is a function of the key and the context of a call. */
export function slidingWindow<C>(options: Per<Units<C>>): LimitRule<C>
export function slidingWindow<C>(options: Per<Units<C>>): Limit | LimitRule<C> {
  return limitOrRule('slidingWindow', ['limit', 'per'], options, (limit, path) => {
    const perMs = parseDuration(options.per, `${path}.per`)
    if (Number.isSafeInteger(limit * perMs)) return { algorithm: 'slidingWindow', limit, perMs }
    const allowed = `at most ${Math.floor(Number.MAX_SAFE_INTEGER / perMs)} for this period`
    throw invalid('invalid-option', { path: `${path}.limit`, value: limit, allowed })
  })
}

/**
 * At most `limit` units in any trailing period of length `per`, exactly. It stores the time of each
 * admitted request, so use it for small limits, such as log-in attempts.
 *
 * ```ts
 * slidingLog({ limit: 5, per: '15m' })
 * ```
 */
export function slidingLog(options: Per<number>): Limit
/** A `slidingLog` whose `limit` is a function of the key and the context of a call. */
export function slidingLog<C>(options: Per<Units<C>>): LimitRule<C>
export function slidingLog<C>(options: Per<Units<C>>): Limit | LimitRule<C> {
  return limitOrRule('slidingLog', ['limit', 'per'], options, (limit, path) => ({
    algorithm: 'slidingLog',
    limit: checkWhole(limit, `${path}.limit`, 0, LOG_COST_MAX),
    perMs: parseDuration(options.per, `${path}.per`),
  }))
}

/**
 * At most `limit` units per window. Windows are aligned to the clock: periods in UTC, or calendar
 * days, weeks and months in a time zone. Use it for quotas. Around the edge of a window, up to
 * twice `limit` can be admitted within a short time.
 *
 * ```ts
 * fixedWindow({ limit: 10_000, per: 'month', timeZone: 'Europe/Berlin' })
 * ```
 */
export function fixedWindow(options: FixedWindowOptions): Limit
/** A `fixedWindow` whose `limit` is a function of the key and the context of a call. */
export function fixedWindow<C>(options: FixedWindowOptions<Units<C>>): LimitRule<C>
export function fixedWindow<C>(options: FixedWindowOptions<Units<C>>): Limit | LimitRule<C> {
  return limitOrRule('fixedWindow', ['limit', 'per', 'timeZone'], options, (limit, path) => {
    const isCalendar = calendarUnits.some((unit) => unit === options.per)
    if (!isCalendar && options.timeZone !== undefined) {
      const allowed = `a time zone only with per: 'day', 'week' or 'month'`
      const value = options.timeZone
      throw invalid('invalid-option', { path: `${path}.timeZone`, value, allowed })
    }
    if (!isCalendar) {
      return { algorithm: 'fixedWindow', limit, per: parseDuration(options.per, `${path}.per`) }
    }
    const unit = checkOneOf(options.per, `${path}.per`, calendarUnits)
    const timeZone = parseTimeZone(options.timeZone ?? 'UTC', `${path}.timeZone`)
    return { algorithm: 'fixedWindow', limit, per: Object.freeze({ unit, timeZone }) }
  })
}

/**
 * At most `limit` slots in use at once, for work that takes time. `acquire` takes a slot and
 * `release` returns it. A slot that is not released is free again after `ttl`.
 *
 * ```ts
 * concurrency({ limit: 10, ttl: '1m' })
 * ```
 */
export function concurrency(options: ConcurrencyOptions): Limit
/** A `concurrency` whose `limit` is a function of the key and the context of a call. */
export function concurrency<C>(options: ConcurrencyOptions<Units<C>>): LimitRule<C>
export function concurrency<C>(options: ConcurrencyOptions<Units<C>>): Limit | LimitRule<C> {
  return limitOrRule('concurrency', ['limit', 'ttl'], options, (limit, path) => ({
    algorithm: 'concurrency',
    limit: checkWhole(limit, `${path}.limit`, 0, HOLDS_MAX),
    ttlMs: parseDuration(options.ttl, `${path}.ttl`),
  }))
}

/** Parses now; for a `limit` that is a function, also once now with 0, so that mistakes show. */
function limitOrRule<C>(
  path: string,
  known: readonly string[],
  options: OnStore & { readonly limit: Units<C> },
  parse: (limit: number, path: string) => Limit,
): Limit | LimitRule<C> {
  checkOptions(options, path, [...known, 'onStoreError', 'onOverload', 'accuracy', 'split'])
  const { limit, onStoreError, onOverload, accuracy, split } = options
  if (onStoreError !== undefined) checkOneOf(onStoreError, `${path}.onStoreError`, failureModes)
  if (onOverload !== undefined) checkOneOf(onOverload, `${path}.onOverload`, overloadModes)
  if (accuracy !== undefined) checkOneOf(accuracy, `${path}.accuracy`, accuracies)
  const declared = {
    ...(onStoreError === undefined ? undefined : { onStoreError }),
    ...(onOverload === undefined ? undefined : { onOverload }),
    ...(accuracy === undefined ? undefined : { accuracy }),
    ...(split === undefined ? undefined : { split: checkSplit(split, path) }),
  }
  const parseLimit = (value: unknown): Limit => {
    const units = checkWhole(value, `${path}.limit`, 0, Number.MAX_SAFE_INTEGER)
    return Object.freeze({ ...parse(units, path), ...declared })
  }
  if (typeof limit !== 'function') return parseLimit(limit)
  parseLimit(0)
  return (key, context) => {
    const units = limit(key, context)
    return units instanceof Promise ? units.then(parseLimit) : parseLimit(units)
  }
}

/** Parts of a counter: more would make each of them small, and a denial asks all. */
const SPLIT_MAX = 64

function checkSplit(split: unknown, path: string): number {
  if (path === 'tokenBucket' || path === 'slidingWindow' || path === 'fixedWindow') {
    return checkWhole(split, `${path}.split`, 1, SPLIT_MAX)
  }
  const allowed = 'only with tokenBucket, slidingWindow and fixedWindow'
  throw invalid('invalid-option', { path: `${path}.split`, value: split, allowed })
}

function parseTimeZone(value: unknown, path: string): string {
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone: String(value) }).resolvedOptions().timeZone
  } catch {
    throw invalid('invalid-option', { path, value, allowed: 'a time zone such as Europe/Berlin' })
  }
}
