/**
 * A limit that is ready to be charged: its numbers, and how a call that exceeds them is treated.
 * Every front end compiles its limits to this. Which requests fall under a limit, and by which key,
 * is the front end's part.
 */

import { randomUUID } from 'node:crypto'
import type { Limit } from 'tidegate'
import type { PlannedCharge } from '../charging/charge-plan.ts'
import type { Overrides } from './overrides.ts'

export interface CompiledLimitParts {
  /** The name that overrides and explanations use. */
  readonly name: string
  /** The name under which the store keeps its counters. */
  readonly counterName: string
  readonly limit: Limit
  /** Other numbers for tiers of callers. */
  readonly byTier?: ReadonlyMap<string, Limit>
  readonly isShadow: boolean
  readonly isQuota: boolean
}

const noTiers: ReadonlyMap<string, Limit> = new Map()

export class CompiledLimit {
  readonly name: string
  readonly counterName: string
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly base: Limit
  readonly #byTier: ReadonlyMap<string, Limit>

  constructor(parts: CompiledLimitParts) {
    this.name = parts.name
    this.counterName = parts.counterName
    this.isShadow = parts.isShadow
    this.isQuota = parts.isQuota
    this.base = parts.limit
    this.#byTier = parts.byTier ?? noTiers
  }

  /** True if callers of this tier have numbers of their own. */
  hasTier(tier: string): boolean {
    return this.#byTier.has(tier)
  }

  get hasTiers(): boolean {
    return this.#byTier.size > 0
  }

  /** The override of the key, else the numbers of the tier, else those of the limit itself. */
  limitFor(key: string, tier: string, overrides: Overrides): Limit {
    return overrides.overrideFor(this.name, key) ?? this.#byTier.get(tier) ?? this.base
  }

  /**
   * Charges `cost` to the counter of a key; a concurrency limit takes one slot instead. `outerKey`
   * is the key of the limit that this one lies within.
   */
  chargeOf(key: string, cost: number, limit: Limit, outerKey?: string): PlannedCharge {
    const { counterName: name, isShadow, isQuota } = this
    const charge = { name, limit, key, cost, isShadow, isQuota, isNegative: false }
    const own =
      outerKey === undefined
        ? charge
        : { ...charge, key: keyWithin(outerKey, key), within: outerKey }
    if (limit.algorithm !== 'concurrency') return own
    return { ...own, cost: 1, hold: { id: randomUUID(), ttlMs: limit.ttlMs } }
  }
}

/** The length marks where the outer key ends, so that different pairs have different texts. */
function keyWithin(outerKey: string, key: string): string {
  return `${outerKey.length}:${outerKey}:${key}`
}
