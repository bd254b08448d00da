/**
 * The limits that the limiters of this process have on each store. Two limiters that give one name
 * different limits would charge the same counters by different rules. That is refused when the
 * second is created. Equal limits of one name share their counters on purpose.
 *
 * A limit that is a function cannot be compared, so a name that it shares is a process warning. The
 * registry does not know other processes, nor two stores on the same server.
 */

import type { Limit } from '../algorithms/limit.ts'
import { TidegateError } from '../errors.ts'
import { limitText } from '../limits/limit-text.ts'
import type { LimitRule } from '../limits/limits.ts'
import { emitWarning } from '../runtime.ts'
import type { Store } from '../stores/store.ts'

// A rule is only compared here, never called.
type AnyRule = Limit | LimitRule<never>

interface Registered {
  readonly rule: AnyRule
  /** Limiters that have it. */
  count: number
}

/** The registered rules of one store, by the name of the limit. */
type RulesByName = Map<string, Registered[]>

const rulesOf = new WeakMap<Store, RulesByName>()

/** Registers the limits of a limiter. Returns the function that ends the registration. */
export function registerLimits(
  store: Store,
  names: readonly string[],
  rules: readonly AnyRule[],
): () => void {
  const known: RulesByName = rulesOf.get(store) ?? new Map()
  rulesOf.set(store, known)
  for (const [at, name] of names.entries()) {
    for (const other of known.get(name) ?? []) compare(name, rules[at] as AnyRule, other.rule)
  }
  const ends = names.map((name, at) => register(known, name, rules[at] as AnyRule))
  return () => {
    for (const end of ends.splice(0)) end()
  }
}

function register(known: RulesByName, name: string, rule: AnyRule): () => void {
  const registered = known.get(name) ?? []
  known.set(name, registered)
  const found = registered.find((other) => isSame(rule, other.rule))
  const entry = found ?? { rule, count: 0 }
  entry.count += 1
  if (found === undefined) registered.push(entry)
  return () => {
    entry.count -= 1
    if (entry.count > 0) return
    registered.splice(registered.indexOf(entry), 1)
    if (registered.length === 0) known.delete(name)
  }
}

function isSame(one: AnyRule, other: AnyRule): boolean {
  if (typeof one === 'function' || typeof other === 'function') return one === other
  return one.algorithm === other.algorithm && limitText(one) === limitText(other)
}

function compare(name: string, rule: AnyRule, other: AnyRule): void {
  if (isSame(rule, other)) return
  if (typeof rule === 'function' || typeof other === 'function') {
    warnOnce(
      `Two limiters on one store have a limit named "${name}", and at least one of the limits is ` +
        'a function. If they use the same algorithm, they share their counters. Give each limit ' +
        'a name of its own, or use one limiter in both places.',
    )
    return
  }
  // The algorithm is part of a counter, so these share nothing.
  if (rule.algorithm !== other.algorithm) return
  throw new TidegateError(
    'wrong-use',
    `limit "${name}" is ${limitText(rule)} here and ${limitText(other)} in another limiter on ` +
      'the same store, and both would share their counters; give each limit a name of its own, ' +
      'or close the other limiter first',
  )
}

/** Messages that were emitted; one per name of a limit. More names are made up at run time. */
const WARNED_MAX = 1_000

const warned = new Set<string>()

function warnOnce(message: string): void {
  if (warned.has(message) || warned.size >= WARNED_MAX) return
  warned.add(message)
  emitWarning(message, 'wrong-use')
}
