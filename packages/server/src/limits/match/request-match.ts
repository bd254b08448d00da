/** Which requests a limit is for, and the reason why a request is not among them. */

import type { MatchSettings } from '../limit-settings.ts'
import type { RequestFacts } from '../request-facts.ts'
import { PathPatterns } from './path-pattern.ts'

/**
 * All path patterns of a set of limits, each of them once. A path is read once per request; the
 * results are valid only until the next `read`.
 */
export class PatternSet {
  readonly #numbers = new Map<string, number>()
  #patterns: PathPatterns | undefined

  add(pattern: string): number {
    const known = this.#numbers.get(pattern)
    if (known !== undefined) return known
    this.#numbers.set(pattern, this.#numbers.size)
    return this.#numbers.size - 1
  }

  read(path: string): void {
    if (this.#numbers.size === 0) return
    this.#patterns ??= new PathPatterns([...this.#numbers.keys()])
    this.#patterns.read(path)
  }

  matches(number: number): boolean {
    return this.#patterns?.matches(number) === true
  }
}

/** A header field or an entry of a descriptor that must have one of some values. */
interface ValueRule {
  readonly kind: 'header' | 'descriptor entry'
  readonly name: string
  readonly values: readonly string[]
  readonly isAnyFine: boolean
}

/** Requires that the pattern set has read the path of the request. */
export class RequestMatch {
  readonly #set: PatternSet
  readonly #methods: readonly string[] | undefined
  readonly #paths: readonly { readonly text: string; readonly number: number }[] | undefined
  readonly #domains: readonly string[] | undefined
  readonly #values: readonly ValueRule[]
  /** Set if the limit is for another region than that of this node. */
  readonly #otherRegion: string | undefined
  /** True if only descriptors of Envoy can match. */
  readonly namesDescriptor: boolean

  constructor(
    settings: MatchSettings | undefined,
    patterns: PatternSet,
    region: string | undefined,
  ) {
    this.#set = patterns
    this.#methods = settings?.methods && withHead(settings.methods)
    this.#paths = settings?.path?.map((text) => ({ text, number: patterns.add(text) }))
    this.#domains = settings?.domain
    this.#values = [
      ...valueRules('header', settings?.headers),
      ...valueRules('descriptor entry', settings?.descriptor),
    ]
    this.namesDescriptor = settings?.domain !== undefined || settings?.descriptor !== undefined
    const wanted = settings?.region
    this.#otherRegion = wanted === undefined || wanted === region ? undefined : wanted
  }

  matches(facts: RequestFacts): boolean {
    if (this.#otherRegion !== undefined) return false
    if (this.#methods !== undefined && !this.#methods.includes(facts.method)) return false
    if (this.#paths !== undefined && (facts.path === '' || this.route() === undefined)) return false
    if (this.#domains !== undefined && !hasDomain(this.#domains, facts)) return false
    for (const rule of this.#values) if (!isFitting(rule, facts)) return false
    return true
  }

  /** The first pattern that the path matches. */
  route(): string | undefined {
    const paths = this.#paths ?? []
    for (const { text, number } of paths) if (this.#set.matches(number)) return text
    return undefined
  }

  /** The first condition that the request does not meet; undefined if it matches. */
  whyNot(facts: RequestFacts): string | undefined {
    if (this.#otherRegion !== undefined) return `it is for the region ${this.#otherRegion}`
    if (this.#methods !== undefined && !this.#methods.includes(facts.method)) {
      return `the method is not ${this.#methods.join(' or ')}`
    }
    if (this.#paths !== undefined && (facts.path === '' || this.route() === undefined)) {
      return `the path does not match ${this.#paths.map(({ text }) => text).join(' or ')}`
    }
    if (this.#domains !== undefined && !hasDomain(this.#domains, facts)) {
      return `the domain is not ${this.#domains.join(' or ')}`
    }
    for (const rule of this.#values) {
      if (isFitting(rule, facts)) continue
      const isMissing = valueIn(rule, facts) === undefined
      return `the ${rule.kind} ${rule.name} ${isMissing ? 'is missing' : 'has another value'}`
    }
    return undefined
  }
}

/**
 * Servers handle HEAD as GET without the body, so a rule for GET holds for HEAD too: otherwise HEAD
 * would bypass it. https://www.rfc-editor.org/rfc/rfc9110#settings-9.3.2
 */
export function withHead(methods: readonly string[]): readonly string[] {
  return methods.includes('GET') && !methods.includes('HEAD') ? [...methods, 'HEAD'] : methods
}

function valueRules(
  kind: ValueRule['kind'],
  rules: Readonly<Record<string, readonly string[]>> | undefined,
): readonly ValueRule[] {
  return Object.entries(rules ?? {}).map(([name, values]) => {
    return { kind, name, values, isAnyFine: values.includes('*') }
  })
}

function hasDomain(domains: readonly string[], { descriptor }: RequestFacts): boolean {
  return descriptor !== undefined && domains.includes(descriptor.domain)
}

function valueIn({ kind, name }: ValueRule, facts: RequestFacts): string | undefined {
  return kind === 'header' ? facts.header(name) : facts.descriptor?.entry(name)
}

function isFitting(rule: ValueRule, facts: RequestFacts): boolean {
  const value = valueIn(rule, facts)
  return value !== undefined && (rule.isAnyFine || rule.values.includes(value))
}
