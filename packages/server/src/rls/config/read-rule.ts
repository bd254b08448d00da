/** From `rate_limit` in a file to a rule. Messages are those of the reference if it has one. */

import {
  accuracies,
  fixedWindow,
  type Limit,
  slidingLog,
  slidingWindow,
  TidegateError,
  tokenBucket,
} from 'tidegate'
import { CompiledLimit } from '../../limits/compile/compiled-limit.ts'
import type { JsonObject } from '../wire/struct.ts'
import { RlsConfigError } from './config-error.ts'
import type { LimitFields } from './decode-file.ts'
import { type Counted, type Rule, type StoreErrorMode, storeErrorModes } from './rule.ts'
import { type Unit, unitNamed, unitOfWindow, unknownUnit } from './units.ts'

export interface RuleDefaults {
  /** `unit: month` is a month of the calendar, in UTC. */
  readonly calendarMonths: boolean
  readonly onStoreError: StoreErrorMode
}

export interface RuleFlags {
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly metadata: JsonObject | undefined
}

interface Window {
  readonly unit: Unit
  readonly windowMs: number | undefined
  readonly calendar: { unit: 'day' | 'week' | 'month'; timeZone: string } | undefined
}

type Declared = Pick<Limit, 'onStoreError' | 'accuracy'>

const algorithms = ['fixed_window', 'sliding_window', 'token_bucket', 'sliding_log'] as const

type AlgorithmWord = (typeof algorithms)[number]

const unitsMs = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
])

/** A leap year: no use is known for longer windows. */
const WINDOW_MS_MAX = 366 * 86_400_000

export function readRule(
  file: string,
  fields: LimitFields,
  flags: RuleFlags,
  defaults: RuleDefaults,
): Rule {
  const { name: limitName, requestsPerUnit } = fields
  if (fields.isUnlimited) {
    if (unitNamed(fields.unit) !== undefined) {
      throw new RlsConfigError(file, 'should not specify rate limit unit when unlimited')
    }
    const replaces = readReplaces(file, fields)
    const unit = unknownUnit
    return { limitName, replaces, unit, requestsPerUnit, counted: undefined, ...flags }
  }
  const window = readWindow(file, fields, defaults)
  const replaces = readReplaces(file, fields)
  const counted = readCounted(file, fields, window, flags, defaults)
  return { limitName, replaces, unit: window.unit, requestsPerUnit, counted, ...flags }
}

/** Compiles a limit that a request brings along. */
export function overrideRule(requestsPerUnit: number, unit: Unit, defaults: RuleDefaults): Rule {
  const isCalendar = unit.name === 'MONTH' && defaults.calendarMonths
  const calendar = isCalendar ? { unit: 'month' as const, timeZone: 'UTC' } : undefined
  const window = { unit, windowMs: isCalendar ? undefined : unit.windowMs, calendar }
  const { onStoreError } = defaults
  const limit = makeLimit('fixed_window', requestsPerUnit, undefined, window, on(onStoreError))
  const flags = { isShadow: false, isQuota: false, metadata: undefined }
  const counted = countedOf('', 'fixed_window', window, limit, flags, onStoreError)
  return { unit, requestsPerUnit, limitName: '', replaces: [], counted, ...flags }
}

/** `rls.60s`, or `rls.250ms` for a fraction of a second. */
export function windowName(windowMs: number): string {
  return windowMs % 1_000 === 0 ? `rls.${windowMs / 1_000}s` : `rls.${windowMs}ms`
}

function readReplaces(file: string, { replaces, name }: LimitFields): readonly string[] {
  for (const replaced of replaces) {
    if (replaced === '') throw new RlsConfigError(file, 'should not have an empty replaces entry')
    if (replaced === name) {
      throw new RlsConfigError(file, 'replaces should not contain name of same descriptor')
    }
  }
  return replaces
}

function readWindow(file: string, fields: LimitFields, defaults: RuleDefaults): Window {
  const { unit: text, per, isCalendar, timeZone } = fields
  if (per !== '') {
    if (text !== '') throw new RlsConfigError(file, 'either unit or per, not both')
    if (isCalendar || timeZone !== '') {
      throw new RlsConfigError(file, 'calendar and time_zone are for unit, not for per')
    }
    const windowMs = durationOf(file, per)
    return { unit: unitOfWindow(windowMs) ?? unknownUnit, windowMs, calendar: undefined }
  }
  const unit = unitNamed(text)
  if (unit === undefined) throw new RlsConfigError(file, `invalid rate limit unit '${text}'`)
  const isCalendarMonth = unit.name === 'MONTH' && defaults.calendarMonths
  if (!isCalendar && !isCalendarMonth) {
    if (timeZone === '') return { unit, windowMs: unit.windowMs, calendar: undefined }
    throw new RlsConfigError(file, 'time_zone is only for calendar: true')
  }
  const name = unit.name.toLowerCase()
  if (name !== 'day' && name !== 'week' && name !== 'month') {
    throw new RlsConfigError(file, `calendar: true is for day, week and month, not '${text}'`)
  }
  const zone = timeZone === '' ? 'UTC' : timeZone
  return { unit, windowMs: undefined, calendar: { unit: name, timeZone: zone } }
}

function durationOf(file: string, per: string): number {
  const [, digits, unit = ''] = /^(\d{1,11})(ms|s|m|h|d)$/.exec(per) ?? []
  const windowMs = Number(digits) * (unitsMs.get(unit) ?? 0)
  if (windowMs > 0 && windowMs <= WINDOW_MS_MAX) return windowMs
  throw new RlsConfigError(file, `invalid per '${per}': a time such as 250ms, 10s, 5m, 1h or 7d`)
}

function readCounted(
  file: string,
  fields: LimitFields,
  window: Window,
  flags: RuleFlags,
  defaults: RuleDefaults,
): Counted {
  const { burst } = fields
  const algorithm = oneOf(file, 'algorithm', fields.algorithm, algorithms) ?? 'fixed_window'
  const onStoreError =
    oneOf(file, 'on_store_error', fields.onStoreError, storeErrorModes) ?? defaults.onStoreError
  const accuracy = oneOf(file, 'accuracy', fields.accuracy, accuracies)
  if (burst !== undefined && algorithm !== 'token_bucket') {
    throw new RlsConfigError(file, 'burst is only for algorithm: token_bucket')
  }
  if (window.calendar !== undefined && algorithm !== 'fixed_window') {
    throw new RlsConfigError(file, 'calendar windows are only for algorithm: fixed_window')
  }
  const declared = { ...on(onStoreError), ...(accuracy === undefined ? undefined : { accuracy }) }
  try {
    const limit = makeLimit(algorithm, fields.requestsPerUnit, burst, window, declared)
    return countedOf(fields.name, algorithm, window, limit, flags, onStoreError)
  } catch (error) {
    if (error instanceof TidegateError) throw new RlsConfigError(file, error.message)
    throw error
  }
}

/** The store's guard refuses in both modes; the rule distinguishes `error` from `closed`. */
function on(onStoreError: StoreErrorMode): Declared {
  return { onStoreError: onStoreError === 'error' ? 'closed' : onStoreError }
}

function makeLimit(
  algorithm: AlgorithmWord,
  limit: number,
  burst: number | undefined,
  { windowMs = 0, calendar }: Window,
  declared: Declared,
): Limit {
  if (calendar !== undefined) {
    const { unit, timeZone } = calendar
    return fixedWindow({ limit, per: unit, timeZone, ...declared })
  }
  const per = `${windowMs}ms` as const
  if (algorithm === 'sliding_window') return slidingWindow({ limit, per, ...declared })
  if (algorithm === 'sliding_log') return slidingLog({ limit, per, ...declared })
  if (algorithm === 'fixed_window') return fixedWindow({ limit, per, ...declared })
  return tokenBucket({ limit, per, ...declared, ...(burst === undefined ? undefined : { burst }) })
}

function countedOf(
  name: string,
  algorithm: AlgorithmWord,
  { windowMs, calendar }: Window,
  limit: Limit,
  { isShadow, isQuota }: RuleFlags,
  onStoreError: StoreErrorMode,
): Counted {
  const counterName = calendar === undefined ? windowName(windowMs ?? 0) : `rls.${calendar.unit}`
  return {
    compiled: new CompiledLimit({ name, counterName, limit, isShadow, isQuota }),
    windowMs: algorithm === 'fixed_window' ? windowMs : undefined,
    onStoreError,
  }
}

function oneOf<T extends string>(
  file: string,
  name: string,
  text: string,
  allowed: readonly T[],
): T | undefined {
  if (text === '') return undefined
  const found = allowed.find((one) => one === text)
  if (found !== undefined) return found
  throw new RlsConfigError(file, `invalid ${name} '${text}': one of ${allowed.join(', ')}`)
}
