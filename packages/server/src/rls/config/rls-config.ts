/** Builds the whole configuration from its files: a tree of rules for each domain. */

import type { TextFile } from '../../config/directory.ts'
import { RlsConfigError } from './config-error.ts'
import {
  type DescriptorFields,
  decodeFile,
  type FileFields,
  type LimitFields,
} from './decode-file.ts'
import { DescriptorNode } from './descriptor-tree.ts'
import { type RuleDefaults, type RuleFlags, readRule } from './read-rule.ts'
import type { Rule } from './rule.ts'
import { cidrMatch, prefixMatch, wildcard } from './value-match.ts'

export interface ConfigOptions extends RuleDefaults {
  /** Whether several files may have the same domain. */
  readonly mergesDomains: boolean
}

export interface NamedRule {
  /** `domain.key_value.key…`: the rule's name in metrics. */
  readonly fullKey: string
  readonly rule: Rule
}

export interface RlsConfig {
  readonly domains: ReadonlyMap<string, DescriptorNode>
  /** Every rule, in the order of the files. */
  readonly rules: readonly NamedRule[]
}

export const defaultConfigOptions: ConfigOptions = {
  mergesDomains: false,
  calendarMonths: false,
  onStoreError: 'error',
}

/** Descriptors in all files: a tree of this size takes tens of megabytes. */
const DESCRIPTORS_MAX = 100_000

/** Throws RlsConfigError for the first problem. */
export function parseConfig(
  files: readonly TextFile[],
  options: ConfigOptions = defaultConfigOptions,
): RlsConfig {
  return loadConfig(
    files.map(({ name, text }) => decodeFile(name, text)),
    options,
  )
}

export function loadConfig(files: readonly FileFields[], options: ConfigOptions): RlsConfig {
  const domains = new Map<string, DescriptorNode>()
  const rules: NamedRule[] = []
  const count = { descriptors: 0 }
  for (const { file, domain, descriptors } of files) {
    if (domain === '') throw new RlsConfigError(file, 'config file cannot have empty domain')
    if (domains.has(domain) && !options.mergesDomains) {
      throw new RlsConfigError(file, `duplicate domain '${domain}' in config file`)
    }
    const root = domains.get(domain) ?? new DescriptorNode(domain)
    domains.set(domain, root)
    new Loader(file, options, rules, count).load(root, descriptors)
  }
  return { domains, rules }
}

class Loader {
  readonly #file: string
  readonly #options: ConfigOptions
  readonly #rules: NamedRule[]
  /** Counts the descriptors of all files. */
  readonly #count: { descriptors: number }

  constructor(
    file: string,
    options: ConfigOptions,
    rules: NamedRule[],
    count: { descriptors: number },
  ) {
    this.#file = file
    this.#options = options
    this.#rules = rules
    this.#count = count
  }

  load(parent: DescriptorNode, descriptors: readonly DescriptorFields[]): void {
    for (const descriptor of descriptors) this.#loadOne(parent, descriptor)
  }

  #loadOne(parent: DescriptorNode, fields: DescriptorFields): void {
    const { key, keyPrefix, limit } = fields
    if (key === '' && keyPrefix === '') throw this.#error('descriptor has empty key')
    const node = this.#node(parent, this.#labelOf(fields))
    const rule = limit === undefined ? undefined : this.#ruleOf(limit, fields)
    this.#describe(node, fields)
    this.#attach(parent, node, fields)
    this.#setRule(node, rule)
    this.load(node, fields.descriptors)
    this.#loadValues(parent, fields)
  }

  #node(parent: DescriptorNode, label: string): DescriptorNode {
    if (++this.#count.descriptors > DESCRIPTORS_MAX) {
      throw this.#error(`more than ${DESCRIPTORS_MAX} descriptors`)
    }
    const node = new DescriptorNode(label, parent)
    if (!parent.hasLabel(label)) return node
    throw this.#error(`duplicate descriptor composite key '${node.fullKey}'`)
  }

  #labelOf({ key, keyPrefix, value, valuePrefix, networks }: DescriptorFields): string {
    if (key !== '' && keyPrefix !== '') throw this.#error('either key or key_prefix, not both')
    const given = [value !== '', valuePrefix !== '', networks.length > 0].filter(Boolean).length
    if (key === '') {
      if (given > 0) throw this.#error(`key_prefix '${keyPrefix}' cannot have a value`)
      return `${keyPrefix}*`
    }
    if (given > 1) {
      throw this.#error(`'${key}' has more than one of value, value_prefix, value_cidr`)
    }
    if (value !== '') return `${key}_${value}`
    if (valuePrefix !== '') return `${key}_${valuePrefix}*`
    return networks.length > 0 ? `${key}_${networks.join(',')}` : key
  }

  #ruleOf(limit: LimitFields, { isShadow, isQuota, metadata }: RuleFlags): Rule {
    return readRule(this.#file, limit, { isShadow, isQuota, metadata }, this.#options)
  }

  #setRule(node: DescriptorNode, rule: Rule | undefined): void {
    if (rule === undefined) return
    node.setRule(rule)
    this.#rules.push({ fullKey: node.fullKey, rule })
  }

  #describe(node: DescriptorNode, fields: DescriptorFields): void {
    const { key, valuePrefix, networks } = fields
    node.hasDetailedMetric = fields.hasDetailedMetric
    node.hasValueMetric = fields.hasValueMetric
    if (!fields.sharesThreshold) return
    const isPattern = node.label.includes('*') || valuePrefix !== '' || networks.length > 0
    if (key === '' || !isPattern) {
      const rule = `share_threshold can only be used with wildcard values (containing '*')`
      throw this.#error(`${rule}, but found key '${node.label}'`)
    }
    node.sharedPattern = node.label
  }

  #attach(parent: DescriptorNode, node: DescriptorNode, fields: DescriptorFields): void {
    const { key, keyPrefix, value, valuePrefix, networks } = fields
    if (key === '') parent.addKeyPrefix(keyPrefix, node)
    else if (networks.length > 0) {
      const matches = cidrMatch(networks)
      if (matches === undefined) {
        const texts = networks.join(', ')
        throw this.#error(`invalid value_cidr '${texts}': networks such as 10.0.0.0/8`)
      }
      parent.addPattern(key, matches, node)
    } else if (valuePrefix !== '') parent.addPattern(key, prefixMatch(valuePrefix), node)
    else if (key.includes('*')) parent.addKeyPattern(wildcard(node.label), node)
    else if (value.includes('*')) parent.addWildcard(key, value, wildcard(value), node)
    else if (value !== '') parent.addExact(key, value, node)
    else parent.addKey(key, node)
  }

  /** `per_value`: limits of single values, in addition to the limit of the key. */
  #loadValues(parent: DescriptorNode, fields: DescriptorFields): void {
    const { key, value, valuePrefix, networks, limitsPerValue } = fields
    if (limitsPerValue.size === 0) return
    if (key === '' || key.includes('*') || `${value}${valuePrefix}${networks.join('')}` !== '') {
      throw this.#error('per_value is for a descriptor with a key and no value')
    }
    for (const [one, limit] of limitsPerValue) {
      const node = this.#node(parent, `${key}_${one}`)
      const rule = this.#ruleOf(limit, fields)
      node.hasDetailedMetric = fields.hasDetailedMetric
      parent.addExact(key, one, node)
      this.#setRule(node, rule)
      this.load(node, fields.descriptors)
    }
  }

  #error(text: string): RlsConfigError {
    return new RlsConfigError(this.#file, text)
  }
}
