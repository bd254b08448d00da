/** Whether a request is one of those that a limit is for, and if not, why. */

import type { MatchSection } from './limits-section.ts'
import { PathPatterns } from './path-pattern.ts'
import type { RequestFacts } from './request-facts.ts'

/**
 * All patterns of a policy, each once. A path is read once per request and then asked about; who
 * waits for something in between has to read it again.
 */
export class PatternBook {
  readonly #numbers = new Map<string, number>()
  #patterns: PathPatterns | undefined

  add(pattern: string): number {
    const known = this.#numbers.get(pattern)
    if (known !== undefined) return known
    this.#numbers.set(pattern, this.#numbers.size)
    return this.#numbers.size - 1
  }

  read(path: string): void {
    // Where nobody asks about paths, none is read.
    if (this.#numbers.size === 0) return
    this.#patterns ??= new PathPatterns([...this.#numbers.keys()])
    this.#patterns.read(path)
  }

  matches(number: number): boolean {
    return this.#patterns?.matches(number) === true
  }
}

interface HeaderRule {
  readonly name: string
  readonly values: readonly string[]
  readonly isAnyFine: boolean
}

/** Asks about the path that the book has read. */
export class RequestMatch {
  readonly #book: PatternBook
  readonly #methods: readonly string[] | undefined
  readonly #paths: readonly { readonly text: string; readonly number: number }[] | undefined
  readonly #headers: readonly HeaderRule[]
  /** A region is that of the node, so it is known beforehand. */
  readonly #otherRegion: string | undefined

  constructor(section: MatchSection | undefined, book: PatternBook, region: string | undefined) {
    this.#book = book
    this.#methods = section?.methods && withHead(section.methods)
    this.#paths = section?.path?.map((text) => ({ text, number: book.add(text) }))
    this.#headers = Object.entries(section?.headers ?? {}).map(([name, values]) => ({
      name,
      values,
      isAnyFine: values.includes('*'),
    }))
    const wanted = section?.region
    this.#otherRegion = wanted === undefined || wanted === region ? undefined : wanted
  }

  matches(facts: RequestFacts): boolean {
    if (this.#otherRegion !== undefined) return false
    if (this.#methods !== undefined && !this.#methods.includes(facts.method)) return false
    if (this.#paths !== undefined && this.route() === undefined) return false
    for (const rule of this.#headers) if (!isFitting(rule, facts)) return false
    return true
  }

  /** The pattern that the path falls under. */
  route(): string | undefined {
    const paths = this.#paths ?? []
    for (const { text, number } of paths) if (this.#book.matches(number)) return text
    return undefined
  }

  /** The first thing that does not fit; undefined where everything does. */
  whyNot(facts: RequestFacts): string | undefined {
    if (this.#otherRegion !== undefined) return `it is for the region ${this.#otherRegion}`
    if (this.#methods !== undefined && !this.#methods.includes(facts.method)) {
      return `the method is not ${this.#methods.join(' or ')}`
    }
    if (this.#paths !== undefined && this.route() === undefined) {
      return `the path does not match ${this.#paths.map(({ text }) => text).join(' or ')}`
    }
    for (const rule of this.#headers) {
      if (isFitting(rule, facts)) continue
      return facts.header(rule.name) === undefined
        ? `the header ${rule.name} is missing`
        : `the header ${rule.name} is not ${rule.values.join(' or ')}`
    }
    return undefined
  }
}

/**
 * Servers handle HEAD as GET without the body, so a rule for GET holds for HEAD too: otherwise HEAD
 * would bypass it. https://www.rfc-editor.org/rfc/rfc9110#section-9.3.2
 */
export function withHead(methods: readonly string[]): readonly string[] {
  return methods.includes('GET') && !methods.includes('HEAD') ? [...methods, 'HEAD'] : methods
}

function isFitting({ name, values, isAnyFine }: HeaderRule, facts: RequestFacts): boolean {
  const value = facts.header(name)
  return value !== undefined && (isAnyFine || values.includes(value))
}
