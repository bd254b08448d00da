/** A limit of a policy, ready to be asked: nothing of the policy is looked at again per request. */

import { randomUUID } from 'node:crypto'
import type { Charge, Decision, Limit, MaybePromise, Store } from 'tidegate'
import { type KeyPlan, type KeySettings, planKey } from './key-of.ts'
import type { LimitSection, OverrideSection } from './limits-section.ts'
import { makeLimit } from './make-limit.ts'
import type { RequestFacts } from './request-facts.ts'
import { type PatternBook, RequestMatch } from './request-match.ts'

export type Charger = (key: string, cost: number) => MaybePromise<Decision>

/** The wall clock in milliseconds. */
export type Now = () => number

interface Override {
  readonly limit: Limit
  readonly expiresAt: number
}

export class CompiledLimit {
  readonly section: LimitSection
  readonly name: string
  readonly isShadow: boolean
  readonly isOff: boolean
  readonly match: RequestMatch
  readonly key: KeyPlan
  /** Whether the tier of the caller makes a difference. */
  readonly needsTier: boolean
  /** What a request takes, where that is the same for all; else undefined. */
  readonly fixedCost: number | undefined
  readonly #base: Limit
  readonly #byTier: ReadonlyMap<string, Limit>
  readonly #overrides = new Map<string, Override>()
  readonly #costRules: ReadonlyArray<{ readonly match: RequestMatch; readonly cost: number }>
  readonly #chargers = new Map<Limit, Charger>()

  constructor(
    section: LimitSection,
    overrides: readonly OverrideSection[],
    book: PatternBook,
    settings: KeySettings,
  ) {
    this.section = section
    this.name = section.name
    this.isShadow = section.mode === 'shadow'
    this.isOff = section.mode === 'off'
    this.match = new RequestMatch(section.match, book, settings.region)
    this.key = planKey(section, settings)
    this.#base = makeLimit(section)
    const tiers = Object.entries(section.tiers ?? {})
    this.#byTier = new Map(tiers.map(([tier, change]) => [tier, makeLimit(section, change)]))
    this.needsTier = this.#byTier.size > 0 || this.key.needsTier
    for (const { limit, key, set, expires = Infinity } of overrides) {
      if (limit !== section.name) continue
      const text = this.key.alternatives[0]?.fromParts(key) ?? ''
      this.#overrides.set(text, { limit: makeLimit(section, set), expiresAt: expires })
    }
    const { cost } = section
    this.fixedCost = typeof cost === 'number' ? cost : undefined
    this.#costRules = Array.isArray(cost)
      ? cost.map((rule) => ({
          match: new RequestMatch(rule.match, book, settings.region),
          cost: rule.cost,
        }))
      : []
  }

  /** The counter of a key and what to charge to it; a slot, where the limit is on concurrency. */
  chargeOf(
    key: string,
    tier: string,
    cost: number,
    outerKey: string | undefined,
    now: Now,
  ): Charge {
    const { name } = this
    const limit = this.limitFor(key, tier, now)
    const charge =
      outerKey === undefined
        ? { name, limit, key, cost }
        : { name, limit, key: within(outerKey, key), cost, within: outerKey }
    if (limit.algorithm !== 'concurrency') return charge
    return { ...charge, cost: 1, hold: { id: randomUUID(), ttlMs: limit.ttlMs } }
  }

  /** What holds for a key: its override, else what its tier has, else the limit as it stands. */
  limitFor(key: string, tier: string, now: Now): Limit {
    return this.overrideFor(key, now) ?? this.#byTier.get(tier) ?? this.#base
  }

  overrideFor(key: string, now: Now): Limit | undefined {
    if (this.#overrides.size === 0) return undefined
    const override = this.#overrides.get(key)
    return override === undefined || override.expiresAt <= now() ? undefined : override.limit
  }

  /** Asks about the path that the book has read. */
  costOf(facts: RequestFacts): number {
    if (this.fixedCost !== undefined) return this.fixedCost
    const { cost } = this.section
    if (typeof cost === 'object' && 'header' in cost) {
      return headerCost(facts.header(cost.header), cost)
    }
    for (const rule of this.#costRules) if (rule.match.matches(facts)) return rule.cost
    return 1
  }

  /** Whether the rollout has reached a key. The same key always gets the same answer. */
  hasReached(key: string): boolean {
    const { rollout } = this.section
    return rollout >= 100 || percentileOf(`${this.name}\0${key}`) < rollout
  }

  /** The short way to charge a single counter, where the store has one. */
  chargerOf(store: Store, limit: Limit): Charger | undefined {
    const known = this.#chargers.get(limit)
    if (known !== undefined) return known
    const charger = store.charger?.(this.name, limit)
    if (charger !== undefined) this.#chargers.set(limit, charger)
    return charger
  }
}

/** A key within another: the length tells where that ends, so that no two pairs are the same. */
function within(outerKey: string, key: string): string {
  return `${outerKey.length}:${outerKey}:${key}`
}

/** A client may say that a request costs more, up to a bound, but not that it costs nothing. */
function headerCost(
  value: string | undefined,
  { max, default: fallback }: { readonly max: number; readonly default: number },
): number {
  if (value === undefined || !/^\d{1,9}$/.test(value)) return fallback
  return Math.min(Math.max(1, Number(value)), max)
}

/**
 * A number from 0 to below 100 that a text always has: FNV-1a, with the last steps of MurmurHash3
 * so that texts which differ little are far apart.
 */
function percentileOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32) * 100
}
