/**
 * The two shapes of keys, a single text or one per limit, and the decision of each. Keys and costs
 * are checked in every call, so these checks are short.
 */

import type { Limit } from '../algorithms/limit.ts'
import { combineDecisions, type Decision, type LayeredDecision } from '../decision.ts'
import { invalid } from '../errors.ts'
import type { LimitRule } from '../limits/limits.ts'
import { checkOneOf, checkOptions } from '../options.ts'

export interface KeyShape<Keys, D extends Decision, Context> {
  readonly layered: boolean
  readonly names: readonly string[]
  readonly rules: ReadonlyArray<Limit | LimitRule<Context>>
  /** The key of the limit at that index; throws if it is not valid. */
  keyOf(keys: Keys, at: number): string
  /** The key that the counter at that index is within, if the limits belong together. */
  withinOf?(keys: Keys, at: number): string | undefined
  /** One text for all keys, different for different keys. */
  label(keys: Keys): string
  combine(decisions: readonly Decision[]): D
}

/** Longer keys are a mistake or an attack: identifiers are short, and each is kept. */
const KEY_BYTES_MAX = 1024

/** A UTF-16 code unit takes at most three bytes of UTF-8. */
const KEY_LENGTH_SURE = Math.floor(KEY_BYTES_MAX / 3)

/** Limits in one group: each is a counter of every decision. */
const LIMITS_MAX = 64

const NAME = /^[A-Za-z0-9_.:/-]{1,64}$/

export function singleKey<Context>(
  name: string,
  rule: Limit | LimitRule<Context>,
): KeyShape<string, Decision, Context> {
  checkName(name, 'createLimiter.name')
  checkRule(rule, 'createLimiter.limit')
  return {
    layered: false,
    names: [name],
    rules: [rule],
    keyOf: (key) => checkKey(key, 'key'),
    label: (key) => key,
    combine: (decisions) => decisions[0] as Decision,
  }
}

export function layeredKeys<Name extends string, Context>(
  limits: Readonly<Record<Name, Limit | LimitRule<Context>>>,
  within?: Within<Name>,
): KeyShape<Readonly<Record<Name, string>>, LayeredDecision<Name>, Context> {
  checkOptions(limits, 'createLimiter.limits', Object.keys(limits ?? {}))
  const names = Object.keys(limits) as Name[]
  if (names.length === 0 || names.length > LIMITS_MAX) {
    const allowed = `1 to ${LIMITS_MAX} limits`
    throw invalid('invalid-option', { path: 'createLimiter.limits', value: names, allowed })
  }
  for (const name of names) {
    checkName(name, `createLimiter.limits.${name}`)
    checkRule(limits[name], `createLimiter.limits.${name}`)
  }
  const isInside = insideOf(names, within)
  const outer = within === undefined ? -1 : names.indexOf(within.name)
  return {
    layered: true,
    names,
    rules: names.map((name) => limits[name]),
    keyOf: (keys, at) => checkKeyOf(keys, names, at),
    withinOf: (keys, at) => (isInside[at] === true ? checkKeyOf(keys, names, outer) : undefined),
    label: (keys) => JSON.stringify(names.map((name) => keys[name])),
    combine: (decisions) => combineDecisions(names, decisions),
  }
}

/** The limit that the others belong to, and those that do not belong to it. */
export interface Within<Name extends string> {
  readonly name: Name
  readonly shared: readonly Name[]
}

/** The limits that are within another one's key: all but the shared ones. */
function insideOf<Name extends string>(
  names: readonly Name[],
  within: Within<Name> | undefined,
): boolean[] {
  if (within === undefined) return []
  checkOneOf(within.name, 'createLimiter.within', names)
  if (!Array.isArray(within.shared)) {
    const allowed = 'an array of names of limits'
    throw invalid('invalid-option', { path: 'createLimiter.shared', value: within.shared, allowed })
  }
  const others = names.filter((name) => name !== within.name)
  for (const name of within.shared) checkOneOf(name, 'createLimiter.shared', others)
  return names.map((name) => !within.shared.includes(name))
}

/** True for keys that are valid by their length alone, as nearly all are. */
export function isPlainKey(key: unknown): key is string {
  return typeof key === 'string' && key.length > 0 && key.length <= KEY_LENGTH_SURE
}

export function checkCost(cost: number | undefined): number {
  if (cost === undefined) return 1
  if (Number.isSafeInteger(cost) && cost >= 0) return cost
  const allowed = 'a whole number from 0 to 2^53 - 1'
  throw invalid('invalid-cost', { path: 'cost', value: cost, allowed })
}

/** Longer than `KEY_BYTES_MAX`. */
export function isTooLong(key: string): boolean {
  return key.length > KEY_LENGTH_SURE && bytesOf(key) > KEY_BYTES_MAX
}

function checkKey(key: unknown, path: string): string {
  if (isPlainKey(key)) return key
  if (typeof key === 'string' && key.length > 0 && !isTooLong(key)) return key
  const allowed = `a string of 1 to ${KEY_BYTES_MAX} bytes`
  throw invalid('invalid-key', { path, value: key, allowed })
}

function bytesOf(text: string): number {
  return text.length > KEY_BYTES_MAX ? text.length : new TextEncoder().encode(text).length
}

function checkKeyOf<Name extends string>(
  keys: Readonly<Record<Name, string>>,
  names: readonly Name[],
  at: number,
): string {
  const name = names[at] as Name
  if (typeof keys !== 'object' || keys === null) {
    const allowed = `an object with a key for each of ${names.join(', ')}`
    throw invalid('invalid-key', { path: 'keys', value: keys, allowed })
  }
  if (at === 0) checkNoOthers(keys, names)
  return checkKey(Object.hasOwn(keys, name) ? keys[name] : undefined, `keys.${name}`)
}

/** A misspelt name would otherwise be a limit that is never applied. */
function checkNoOthers(keys: object, names: readonly string[]): void {
  for (const [name, value] of Object.entries(keys)) {
    if (names.includes(name)) continue
    throw invalid('invalid-key', { path: `keys.${name}`, value, allowed: names.join(', ') })
  }
}

function checkName(name: unknown, path: string): void {
  if (typeof name === 'string' && NAME.test(name)) return
  const allowed = '1 to 64 of the characters A-Z a-z 0-9 _ . : / -'
  throw invalid('invalid-option', { path, value: name, allowed })
}

function checkRule(rule: unknown, path: string): void {
  if (typeof rule === 'function') return
  if (typeof rule === 'object' && rule !== null && 'algorithm' in rule) return
  const allowed = 'a limit such as tokenBucket({ limit, per }), or a function that returns one'
  throw invalid('invalid-option', { path, value: rule, allowed })
}
