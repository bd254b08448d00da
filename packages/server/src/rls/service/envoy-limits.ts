/**
 * The rules of Envoy's files for operators. A limit is named by its domain, and a key has a text
 * `key=value` for each entry of the descriptor. An entry without a value is its key alone.
 */

import type { Limit } from 'tidegate'
import type { PlannedCharge } from '../../limits/charging/charge-plan.ts'
import type { StoreRouter } from '../../limits/charging/store-router.ts'
import type { CompiledLimit } from '../../limits/compile/compiled-limit.ts'
import { changedLimit } from '../../limits/compile/make-limit.ts'
import type { CounterAsked, FoundCounter, OperatedLimits } from '../../limits/counters.ts'
import type { LimitChange } from '../../limits/limit-settings.ts'
import type { LiveBlock, LiveOverride } from '../../limits/live/live-entries.ts'
import type { LimitIndex, LiveRules } from '../../limits/live/live-rules.ts'
import type { DescriptorNode, Entry, Match } from '../config/descriptor-tree.ts'
import type { RlsConfig } from '../config/rls-config.ts'
import type { Counted } from '../config/rule.ts'
import { counterKey } from './counter-key.ts'
import { descriptorFacts } from './descriptor-facts.ts'

const PARTS = 'a text such as remote_address=192.0.2.1 for each entry of the descriptor'

/** Undefined if a part has no key. */
export function entriesOf(parts: readonly string[]): readonly Entry[] | undefined {
  const entries = parts.map((part) => {
    const at = part.indexOf('=')
    return at < 0 ? { key: part, value: '' } : { key: part.slice(0, at), value: part.slice(at + 1) }
  })
  return entries.length === 0 || entries.some(({ key }) => key === '') ? undefined : entries
}

export interface DescriptorCounter {
  readonly keyPrefix: string
  readonly domain: string
  readonly entries: readonly Entry[]
  /** The nodes of its rule; empty without a rule. */
  readonly path: readonly DescriptorNode[]
}

/** The live block of a descriptor: of its address, then of its identity, then of itself. */
export function descriptorBlock(
  live: LiveRules,
  { keyPrefix, domain, entries, path }: DescriptorCounter,
): LiveBlock | undefined {
  const facts = descriptorFacts(domain, entries)
  const block = live.addressBlock(facts.ip) ?? live.identityBlock(facts)
  if (block !== undefined || !live.hasKeyBlocks) return block
  return live.keyBlock(domain, counterKey(keyPrefix, domain, entries, path))
}

/** Finds rules and counters of one configuration by domain and descriptor. */
export class EnvoyIndex implements LimitIndex {
  readonly #config: RlsConfig
  readonly #keyPrefix: string

  constructor(config: RlsConfig, keyPrefix: string) {
    this.#config = config
    this.#keyPrefix = keyPrefix
  }

  get keyPrefix(): string {
    return this.#keyPrefix
  }

  get domains(): readonly string[] {
    return [...this.#config.domains.keys()]
  }

  /** Also finds the key of a descriptor without a rule, because it can be blocked. */
  keyOf(domain: string, parts: readonly string[]): string | undefined {
    const entries = entriesOf(parts)
    if (entries === undefined || !this.#config.domains.has(domain)) return undefined
    const path = this.matchOf(domain, entries)?.path ?? []
    return counterKey(this.#keyPrefix, domain, entries, path)
  }

  limitOf({ limit: domain, key, set }: LiveOverride): Limit | undefined {
    const counted = this.countedOf(domain, key)
    return counted && changedLimit(counted.compiled.base, set)
  }

  matchOf(domain: string, entries: readonly Entry[]): Match | undefined {
    return this.#config.domains.get(domain)?.find(entries)
  }

  /** Undefined if no rule counts the descriptor. */
  countedOf(domain: string, parts: readonly string[]): Counted | undefined {
    const entries = entriesOf(parts)
    return entries && this.matchOf(domain, entries)?.rule.counted
  }
}

export interface EnvoyLimitParts {
  readonly index: EnvoyIndex
  readonly live: LiveRules
  readonly stores: StoreRouter
}

export class EnvoyLimits implements OperatedLimits {
  readonly #parts: EnvoyLimitParts

  constructor(parts: EnvoyLimitParts) {
    this.#parts = parts
  }

  findCounter(asked: CounterAsked): FoundCounter | string {
    const { limit: domain, key: parts, kind, within, tier } = asked
    const { live, stores } = this.#parts
    if (kind !== undefined || within !== undefined || tier !== undefined) {
      return "kind, within, tier: only limits of a policy have them, not those of Envoy's files"
    }
    const found = this.#find(domain, parts)
    if (typeof found === 'string') return found
    const { compiled, key } = found
    const limit = live.overrideFor(domain, key) ?? compiled.base
    const charge: PlannedCharge = compiled.chargeOf(key, 0, limit)
    return { limit: domain, charge, store: stores.storeFor(limit) }
  }

  findCounters(key: readonly string[]): readonly FoundCounter[] {
    return this.#parts.index.domains.flatMap((limit) => {
      const found = this.findCounter({ limit, key })
      return typeof found === 'string' ? [] : [found]
    })
  }

  keyProblem(domain: string, key: readonly string[]): string | undefined {
    const { index } = this.#parts
    if (!index.domains.includes(domain)) {
      return `limit: no domain of the configuration is named ${JSON.stringify(domain)}`
    }
    return index.keyOf(domain, key) === undefined ? `key: allowed is ${PARTS}` : undefined
  }

  overrideProblem(domain: string, key: readonly string[], set: LimitChange): string | undefined {
    const found = this.#find(domain, key)
    if (typeof found === 'string') return found
    try {
      changedLimit(found.compiled.base, set)
      return undefined
    } catch (error) {
      return `set: ${(error as Error).message}`
    }
  }

  /** Returns the limit and the key of a descriptor, or a sentence about the problem. */
  #find(domain: string, parts: readonly string[]): FoundRule | string {
    const { index } = this.#parts
    const problem = this.keyProblem(domain, parts)
    if (problem !== undefined) return problem
    const key = index.keyOf(domain, parts)
    const compiled = index.countedOf(domain, parts)?.compiled
    if (key !== undefined && compiled !== undefined) return { compiled, key }
    return `key: no rule of ${domain} counts this descriptor; allowed: ${PARTS}`
  }
}

interface FoundRule {
  readonly compiled: CompiledLimit
  readonly key: string
}
