/**
 * The rules of a domain as a tree with one level for each entry of a descriptor. A level tries the
 * exact value first, then patterns in the order of the file, then the key alone, then key prefixes.
 * There is no backtracking: once a level has decided, its siblings are not tried. A descriptor has
 * as many entries as its rule has levels.
 *
 * Key and value are compared one by one, never joined, so that a value cannot pass for another key.
 * Only a key that contains `*` is a pattern over both, as in the reference. Finding a rule
 * allocates nothing.
 */

import type { Rule } from './rule.ts'
import type { ValueMatch } from './value-match.ts'

export interface Entry {
  readonly key: string
  readonly value: string
}

/** The rule of a descriptor. Every rule has one such object. */
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
  /** Labels as the reference joins them, to refuse the same duplicates. */
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

  /** The text of the pattern itself also matches, as an exact value. */
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
