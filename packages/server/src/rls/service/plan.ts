/**
 * What a request asks for, worked out before any counter is touched: which rule each descriptor
 * meets, and which counters are to be charged. It depends on the request and the configuration
 * only, so that the plan of the same bytes is used again.
 */

import type { Charge } from 'tidegate'
import type { DescriptorNode } from '../config/descriptor-tree.ts'
import { overrideRule, type RuleDefaults } from '../config/read-rule.ts'
import type { RlsConfig } from '../config/rls-config.ts'
import type { Counted, Rule } from '../config/rule.ts'
import { unitOfCode } from '../config/units.ts'
import {
  type CurrentLimit,
  type Descriptor,
  InvalidRequest,
  type RateLimitRequest,
} from '../wire/rate-limit-messages.ts'
import { counterKey } from './counter-key.ts'
import type { Charging } from './judge.ts'
import type { RuleStats, Stats } from './stats.ts'

/** One descriptor of a request. */
export interface PlanItem {
  readonly rule: Rule | undefined
  readonly currentLimit: CurrentLimit | undefined
  readonly stats: RuleStats | undefined
  readonly hits: number
  /** Which charge is its own; undefined where it has none. */
  readonly chargeAt: number | undefined
  /** Given back instead of charged. */
  readonly isNegative: boolean
}

/** One counter, with the hits of all descriptors that lead to it, or of one where each counts. */
export interface PlanCharge extends Charge {
  readonly counted: Counted
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly isNegative: boolean
}

export interface Plan {
  readonly request: RateLimitRequest
  readonly items: readonly PlanItem[]
  readonly charges: readonly PlanCharge[]
  readonly isDomainKnown: boolean
}

export interface PlanSettings extends RuleDefaults {
  readonly keyPrefix: string
  /** Every limit is a quota. */
  readonly isQuotaMode: boolean
  readonly charging: Charging
}

/** Overrides that were seen: their limits are made once. */
const OVERRIDES_MAX = 10_000

export class Planner {
  readonly #config: RlsConfig
  readonly #stats: Stats
  readonly #settings: PlanSettings
  readonly #overrides = new Map<string, Rule>()

  constructor(config: RlsConfig, stats: Stats, settings: PlanSettings) {
    this.#config = config
    this.#stats = stats
    this.#settings = settings
  }

  /** Throws InvalidRequest. */
  plan(request: RateLimitRequest): Plan {
    if (request.domain === '') throw new InvalidRequest('rate limit domain must not be empty')
    if (request.descriptors.length === 0) {
      throw new InvalidRequest('rate limit descriptor list must not be empty')
    }
    const root = this.#config.domains.get(request.domain)
    const matches = request.descriptors.map((descriptor) => this.#match(root, descriptor, request))
    const replaced = new Set(matches.flatMap((match) => match?.rule.replaces ?? []))
    const charges: PlanCharge[] = []
    const indexes = new Map<string, number>()
    const items = request.descriptors.map((descriptor, at): PlanItem => {
      const match = matches[at]
      const isDropped = match !== undefined && replaced.has(match.rule.limitName)
      const hits = descriptor.hitsAddend ?? (request.hitsAddend === 0 ? 1 : request.hitsAddend)
      if (match === undefined || isDropped) return withoutRule(hits)
      return this.#item(match, descriptor, hits, request.domain, charges, indexes)
    })
    return { request, items, charges, isDomainKnown: root !== undefined }
  }

  #match(root: DescriptorNode | undefined, descriptor: Descriptor, { domain }: RateLimitRequest) {
    const { entries, limit } = descriptor
    const override = limit === undefined ? undefined : this.#override(limit)
    if (root === undefined) return undefined
    if (override !== undefined) {
      const keys = entries.map(({ key, value }) => (value === '' ? key : `${key}_${value}`))
      const stats = this.#stats.ofDynamic(domain, keys, `override of ${domain}`)
      return { rule: override, path: [], stats }
    }
    const match = root.find(entries)
    if (match === undefined) return undefined
    return { ...match, stats: this.#statsOf(match.path, entries, domain) }
  }

  #override({ requestsPerUnit, unit: code }: { requestsPerUnit: number; unit: number }): Rule {
    const unit = unitOfCode(code)
    if (unit === undefined) throw new InvalidRequest(`the unit ${code} of a limit override`)
    const id = `${requestsPerUnit}/${code}`
    const known = this.#overrides.get(id)
    if (known !== undefined) return known
    if (this.#overrides.size >= OVERRIDES_MAX) this.#overrides.clear()
    const rule = overrideRule(requestsPerUnit, unit, this.#settings)
    this.#overrides.set(id, rule)
    return rule
  }

  /** The metric of a rule: as it is configured, or with values where that asks for them. */
  #statsOf(path: readonly DescriptorNode[], entries: Descriptor['entries'], domain: string) {
    const isDetailed = path.at(-1)?.hasDetailedMetric === true
    const labels = path.map((node) => node.label)
    let isDynamic = false
    const keys = path.map((node, at) => {
      const { key, value } = entries[at] as { key: string; value: string }
      const isNamed = isDetailed || node.hasValueMetric
      if (!isNamed || node.sharedPattern !== undefined || value === '') return node.label
      const label = `${key}_${value}`
      isDynamic ||= label !== node.label
      return label
    })
    if (!isDynamic) return this.#stats.of(domain, keys)
    return this.#stats.ofDynamic(domain, keys, `${domain}.${labels.join('.')}`)
  }

  #item(
    { rule, path, stats }: { rule: Rule; path: readonly DescriptorNode[]; stats: RuleStats },
    { entries, isNegativeHits }: Descriptor,
    hits: number,
    domain: string,
    charges: PlanCharge[],
    indexes: Map<string, number>,
  ): PlanItem {
    const { counted, unit, requestsPerUnit, limitName } = rule
    const base = { rule, stats, hits, isNegative: isNegativeHits }
    if (counted === undefined) return { ...base, currentLimit: undefined, chargeAt: undefined }
    const currentLimit = { requestsPerUnit, unit: unit.code, name: limitName }
    const key = counterKey(this.#settings.keyPrefix, domain, entries, path)
    const kind = `${isNegativeHits ? '-' : '+'}${counted.limit.algorithm}\0${counted.name}\0${key}`
    const known = indexes.get(kind)
    if (known !== undefined && this.#settings.charging !== 'each') {
      const charge = charges[known] as PlanCharge
      charges[known] = { ...charge, cost: charge.cost + hits }
      return { ...base, currentLimit, chargeAt: known }
    }
    indexes.set(kind, charges.length)
    const chargeAt = charges.length
    charges.push({
      name: counted.name,
      limit: counted.limit,
      key,
      cost: hits,
      counted,
      isShadow: rule.isShadow,
      isQuota: rule.isQuota || this.#settings.isQuotaMode,
      isNegative: isNegativeHits,
    })
    return { ...base, currentLimit, chargeAt }
  }
}

function withoutRule(hits: number): PlanItem {
  return {
    rule: undefined,
    currentLimit: undefined,
    stats: undefined,
    hits,
    chargeAt: undefined,
    isNegative: false,
  }
}
