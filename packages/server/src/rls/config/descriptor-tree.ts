/**
 * The rules of a domain, and how a descriptor finds its own: one level for each entry; at each the
 * same value first, then patterns in the order of the file, then the key alone, then key prefixes.
 * There is no way back: once a level has decided, its siblings are not tried. A descriptor has as
 * many entries as its rule has levels; nothing applies to a part of it.
 *
 * Key and value are compared one by one, never joined, so that no value can pass for another key.
 * Only where a key has a `*` itself, the pattern is compared with both, as in the reference. All
 * that can be known beforehand is: finding a rule makes no objects.
 */

import type { Rule } from './rule.ts'
import type { ValueMatch } from './value-match.ts'

export interface Entry {
  readonly key: string
  readonly value: string
}

/** What a descriptor has found. There is one of each rule. */
export interface Match {
  readonly rule: Rule
  /** The node of each entry. */
  readonly path: readonly DescriptorNode[]
}

interface Level {
  readonly values: Map<string, DescriptorNode>
  readonly patterns: { readonly matches: ValueMatch; readonly node: DescriptorNode }[]
  own: DescriptorNode | undefined
}

interface AnyPattern {
  matches(key: string, value: string): boolean
  readonly node: DescriptorNode
}

export class DescriptorNode {
  /** `key`, or `key_value`: its name in metrics. */
  readonly label: string
  /** `domain.key_value.key…`: the name of its rule. */
  readonly fullKey: string
  /** The label of a pattern whose values share one counter. */
  sharedPattern: string | undefined
  hasDetailedMetric = false
  hasValueMetric = false
  readonly #path: readonly DescriptorNode[]
  readonly #levels = new Map<string, Level>()
  readonly #prefixes: { readonly prefix: string; readonly node: DescriptorNode }[] = []
  /** All patterns in the order of the file, used once a key has a `*`. */
  readonly #patterns: AnyPattern[] = []
  #hasKeyPatterns = false
  /** Joined as the reference joins them, to refuse what it refuses. */
  readonly #labels = new Set<string>()
  #match: Match | undefined

  constructor(label: string, parent?: DescriptorNode) {
    this.label = label
    this.fullKey = parent === undefined ? label : `${parent.fullKey}.${label}`
    this.#path = parent === undefined ? [] : [...parent.#path, this]
  }

  get rule(): Rule | undefined {
    return this.#match?.rule
  }

  hasLabel(label: string): boolean {
    return this.#labels.has(label)
  }

  addExact(key: string, value: string, node: DescriptorNode): void {
    this.#labels.add(node.label)
    this.#level(key).values.set(value, node)
  }

  /** A value that is the text of the pattern itself counts as the same value. */
  addWildcard(key: string, text: string, matches: ValueMatch, node: DescriptorNode): void {
    this.addExact(key, text, node)
    this.addPattern(key, matches, node)
  }

  addPattern(key: string, matches: ValueMatch, node: DescriptorNode): void {
    this.#labels.add(node.label)
    this.#level(key).patterns.push({ matches, node })
    this.#patterns.push({ matches: (other, value) => other === key && matches(value), node })
  }

  /** A pattern over `key_value`. */
  addKeyPattern(matches: ValueMatch, node: DescriptorNode): void {
    this.#labels.add(node.label)
    this.#hasKeyPatterns = true
    this.#patterns.push({ matches: (key, value) => matches(`${key}_${value}`), node })
  }

  addKey(key: string, node: DescriptorNode): void {
    this.#labels.add(node.label)
    this.#level(key).own = node
  }

  addKeyPrefix(prefix: string, node: DescriptorNode): void {
    this.#labels.add(node.label)
    this.#prefixes.push({ prefix, node })
  }

  setRule(rule: Rule): void {
    this.#match = { rule, path: this.#path }
  }

  find(entries: readonly Entry[]): Match | undefined {
    let node: DescriptorNode = this
    for (let at = 0; at < entries.length; at++) {
      const next = node.#child(entries[at] as Entry)
      if (next === undefined) return undefined
      node = next
    }
    return node.#match
  }

  #level(key: string): Level {
    const known = this.#levels.get(key)
    if (known !== undefined) return known
    const level: Level = { values: new Map(), patterns: [], own: undefined }
    this.#levels.set(key, level)
    return level
  }

  #child({ key, value }: Entry): DescriptorNode | undefined {
    const level = this.#levels.get(key)
    if (level !== undefined) {
      const exact = level.values.get(value)
      if (exact !== undefined) return exact
      if (!this.#hasKeyPatterns) {
        for (const { matches, node } of level.patterns) if (matches(value)) return node
      }
    }
    if (this.#hasKeyPatterns) {
      for (const pattern of this.#patterns) if (pattern.matches(key, value)) return pattern.node
    }
    if (level?.own !== undefined) return level.own
    for (const { prefix, node } of this.#prefixes) if (key.startsWith(prefix)) return node
    return undefined
  }
}
