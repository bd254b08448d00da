/** Plans requests by Envoy's YAML: each descriptor falls under one rule of its domain, or none. */

import type { Charging } from '../../limits/charging/charge-group.ts'
import type { ChargeUse, PlannedCharge } from '../../limits/charging/charge-plan.ts'
import type { SwitchState } from '../../limits/live/live-entries.ts'
import type { LiveRules } from '../../limits/live/live-rules.ts'
import type { DescriptorNode } from '../config/descriptor-tree.ts'
import { overrideRule, type RuleDefaults } from '../config/read-rule.ts'
import type { RlsConfig } from '../config/rls-config.ts'
import type { Rule } from '../config/rule.ts'
import { unitOfCode, unitOfLimit, windowMsOf } from '../config/units.ts'
import {
  type Descriptor,
  InvalidRequest,
  type RateLimitRequest,
} from '../wire/rate-limit-messages.ts'
import { counterKey } from './counter-key.ts'
import { descriptorBlock } from './envoy-limits.ts'
import {
  checkRequest,
  type PlanItem,
  type RlsPlan,
  type RlsPlanner,
  type ShownLimit,
} from './rls-plan.ts'
import type { RuleStats, Stats } from './stats.ts'

export interface EnvoyPlanSettings extends RuleDefaults {
  readonly keyPrefix: string
  /** Every limit is a quota. */
  readonly isQuotaMode: boolean
  readonly charging: Charging
}

/** A rule that a descriptor falls under. */
interface Match {
  readonly rule: Rule
  readonly path: readonly DescriptorNode[]
  readonly stats: RuleStats
}

/** A plan in the making. */
interface Draft {
  readonly charges: PlannedCharge[]
  readonly uses: ChargeUse<ShownLimit>[]
  /** Indexes of charges by their counter. */
  readonly places: Map<string, number>
  /** The switch of operators. */
  readonly state: SwitchState
  isLasting: boolean
}

/** Limits that requests bring along; each is compiled once. */
const REQUESTED_LIMITS_MAX = 10_000

const withoutRule: PlanItem = { uses: [], isRefused: false, metadata: undefined }

const blockedItem: PlanItem = { ...withoutRule, isRefused: true }

export class EnvoyPlanner implements RlsPlanner {
  readonly #config: RlsConfig
  readonly #stats: Stats
  readonly #settings: EnvoyPlanSettings
  readonly #live: LiveRules | undefined
  readonly #requested = new Map<string, Rule>()

  constructor(config: RlsConfig, stats: Stats, settings: EnvoyPlanSettings, live?: LiveRules) {
    this.#config = config
    this.#stats = stats
    this.#settings = settings
    this.#live = live
  }

  plan(request: RateLimitRequest): RlsPlan {
    checkRequest(request)
    const root = this.#config.domains.get(request.domain)
    const matches = request.descriptors.map((descriptor) => this.#match(root, descriptor, request))
    const replaced = new Set(matches.flatMap((match) => match?.rule.replaces ?? []))
    const draft = this.#draft()
    const items = request.descriptors.map((descriptor, at): PlanItem => {
      const match = matches[at]
      if (this.#isBlocked(request, descriptor, match?.path)) {
        draft.isLasting = false
        return blockedItem
      }
      if (draft.state === 'off') return withoutRule
      if (match === undefined || replaced.has(match.rule.limitName)) return withoutRule
      const use = this.#use(match, descriptor, request, draft)
      draft.uses.push(use)
      return { uses: [draft.uses.length - 1], isRefused: false, metadata: match.rule.metadata }
    })
    const { charges, uses, isLasting } = draft
    return { request, items, charges, uses, isLasting, isDomainKnown: root !== undefined }
  }

  #isBlocked(
    { domain }: RateLimitRequest,
    { entries }: Descriptor,
    path: readonly DescriptorNode[] = [],
  ): boolean {
    const live = this.#live
    if (live === undefined || !live.hasBlocks) return false
    const counter = { keyPrefix: this.#settings.keyPrefix, domain, entries, path }
    return descriptorBlock(live, counter) !== undefined
  }

  /** While the switch is not on, or lifts blocks, its end changes plans. */
  #draft(): Draft {
    const live = this.#live
    const state = live?.state ?? 'on'
    const isLasting = state === 'on' && live?.areBlocksLifted !== true
    return { charges: [], uses: [], places: new Map(), state, isLasting }
  }

  #match(
    root: DescriptorNode | undefined,
    descriptor: Descriptor,
    { domain }: RateLimitRequest,
  ): Match | undefined {
    const { entries, limit } = descriptor
    const requested = limit === undefined ? undefined : this.#requestedRule(limit)
    if (root === undefined) return undefined
    if (requested !== undefined) {
      const keys = entries.map(({ key, value }) => (value === '' ? key : `${key}_${value}`))
      const stats = this.#stats.ofDynamic(domain, keys, `override of ${domain}`)
      return { rule: requested, path: [], stats }
    }
    const match = root.find(entries)
    if (match === undefined) return undefined
    return { ...match, stats: this.#statsOf(match.path, entries, domain) }
  }

  #requestedRule({ requestsPerUnit, unit: code }: NonNullable<Descriptor['limit']>): Rule {
    const unit = unitOfCode(code)
    if (unit === undefined) throw new InvalidRequest(`the unit ${code} of a limit override`)
    const id = `${requestsPerUnit}/${code}`
    const known = this.#requested.get(id)
    if (known !== undefined) return known
    if (this.#requested.size >= REQUESTED_LIMITS_MAX) this.#requested.clear()
    const rule = overrideRule(requestsPerUnit, unit, this.#settings)
    this.#requested.set(id, rule)
    return rule
  }

  /** Metrics are named after the rule, or after values of the request if the rule asks for it. */
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

  #use(
    { rule, path, stats }: Match,
    descriptor: Descriptor,
    request: RateLimitRequest,
    draft: Draft,
  ): ChargeUse<ShownLimit> {
    const { counted, unit, requestsPerUnit, limitName } = rule
    const { entries, isNegativeHits } = descriptor
    const units = hitsOf(descriptor, request)
    if (counted === undefined) {
      const subject = { stats, currentLimit: undefined, windowMs: undefined, failsCall: false }
      return { subject, chargeAt: undefined, units }
    }
    const { compiled, windowMs, onStoreError } = counted
    const key = counterKey(this.#settings.keyPrefix, request.domain, entries, path)
    const override = this.#live?.overrideFor(request.domain, key)
    const limit = override ?? compiled.base
    draft.isLasting &&= override === undefined
    const charge: PlannedCharge = {
      ...compiled.chargeOf(key, units, limit),
      isShadow: compiled.isShadow || draft.state === 'shadow',
      isQuota: compiled.isQuota || this.#settings.isQuotaMode,
      isNegative: isNegativeHits,
    }
    const currentLimit = {
      requestsPerUnit: override?.limit ?? requestsPerUnit,
      unit: override === undefined ? unit.code : unitOfLimit(override).code,
      name: limitName,
    }
    const shownMs = override === undefined ? windowMs : windowMsOf(override)
    const subject = { stats, currentLimit, windowMs: shownMs, failsCall: onStoreError === 'error' }
    return { subject, chargeAt: this.#add(charge, draft), units }
  }

  /** Descriptors that lead to the same counter are charged together, unless each is on its own. */
  #add(charge: PlannedCharge, { charges, places }: Draft): number {
    const { isNegative, limit, name, key, cost } = charge
    const place = `${isNegative ? '-' : '+'}${limit.algorithm}\0${name}\0${key}`
    const known = this.#settings.charging === 'each' ? undefined : places.get(place)
    if (known === undefined) {
      places.set(place, charges.length)
      return charges.push(charge) - 1
    }
    const other = charges[known] as PlannedCharge
    charges[known] = { ...other, cost: other.cost + cost }
    return known
  }
}

/** The hits of a descriptor: its own, else those of the request, else 1. */
function hitsOf({ hitsAddend }: Descriptor, request: RateLimitRequest): number {
  return hitsAddend ?? (request.hitsAddend === 0 ? 1 : request.hitsAddend)
}
