/**
 * A limit with the requests that it is for: which ones match, by which key they are counted, and
 * what they cost. Everything is compiled once; requests do not read the settings again.
 */

import { type KeyContext, type KeyPlan, planKey } from '../key-plan.ts'
import type { LimitSettings } from '../limit-settings.ts'
import { type PatternSet, RequestMatch } from '../match/request-match.ts'
import type { RequestFacts } from '../request-facts.ts'
import { CompiledLimit } from './compiled-limit.ts'
import { makeLimit } from './make-limit.ts'

export class RequestLimit {
  readonly settings: LimitSettings
  readonly compiled: CompiledLimit
  readonly name: string
  readonly isOff: boolean
  readonly match: RequestMatch
  readonly key: KeyPlan
  /** True if the tier of the caller makes a difference. */
  readonly needsTier: boolean
  /** Units that every request takes; undefined if requests differ. */
  readonly fixedCost: number | undefined
  readonly #costRules: ReadonlyArray<{ readonly match: RequestMatch; readonly cost: number }>

  constructor(settings: LimitSettings, patterns: PatternSet, context: KeyContext) {
    const { name, mode, match, cost } = settings
    this.settings = settings
    this.name = name
    this.isOff = mode === 'off'
    this.match = new RequestMatch(match, patterns, context.region)
    this.key = planKey(settings, context)
    const tiers = Object.entries(settings.tiers ?? {})
    this.compiled = new CompiledLimit({
      name,
      counterName: name,
      limit: makeLimit(settings),
      byTier: new Map(tiers.map(([tier, change]) => [tier, makeLimit(settings, change)])),
      isShadow: mode === 'shadow',
      isQuota: false,
    })
    this.needsTier = this.compiled.hasTiers || this.key.needsTier
    this.fixedCost = typeof cost === 'number' ? cost : undefined
    this.#costRules = Array.isArray(cost)
      ? cost.map((rule) => ({
          match: new RequestMatch(rule.match, patterns, context.region),
          cost: rule.cost,
        }))
      : []
  }

  /** Requires that the pattern set has read the path of the request. */
  costOf(facts: RequestFacts): number {
    if (this.fixedCost !== undefined) return this.fixedCost
    const { cost } = this.settings
    if (typeof cost === 'object' && 'header' in cost) {
      return headerCost(facts.header(cost.header), cost)
    }
    for (const rule of this.#costRules) if (rule.match.matches(facts)) return rule.cost
    return 1
  }

  /** True if the rollout includes a key. The result for a key never changes. */
  includes(key: string): boolean {
    const { rollout } = this.settings
    return rollout >= 100 || percentileOf(`${this.name}\0${key}`) < rollout
  }
}

/** A client may declare a higher cost, up to a maximum, but never a cost of 0. */
function headerCost(
  value: string | undefined,
  { max, default: fallback }: { readonly max: number; readonly default: number },
): number {
  if (value === undefined || !/^\d{1,9}$/.test(value)) return fallback
  return Math.min(Math.max(1, Number(value)), max)
}

/**
 * A hash of a text, from 0 to below 100: FNV-1a, with the last steps of MurmurHash3 so that similar
 * texts get distant numbers.
 */
function percentileOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32) * 100
}
