/**
 * Counters for operators: what a key has used of a limit, and changes of it. A counter is found by
 * the name of a limit and the parts of a key, as overrides name them.
 */

import type { Decision, Limit, Store } from 'tidegate'
import type { PlannedCharge } from './charging/charge-plan.ts'
import type { RequestLimit } from './compile/request-limit.ts'
import type { RulesInForce } from './enforcer.ts'
import { liveKey } from './live/live-rules.ts'
import { keyHash } from './outcome.ts'

export interface CounterAsked {
  readonly limit: string
  readonly key: readonly string[]
  /** The parts of the outer key, if the limit lies within another. */
  readonly within?: readonly string[] | undefined
  /** Default: the default tier. */
  readonly tier?: string | undefined
}

export interface FoundCounter {
  readonly limit: RequestLimit
  readonly charge: PlannedCharge
}

export interface CounterState {
  readonly limit: string
  /** The digest of the key in logs. */
  readonly keyHash: string
  readonly numbers: Limit
  readonly used: number
  readonly left: number
  /** Units that are set aside by requests under way; null if the limit counts none. */
  readonly held: number | null
  /** Null if no time is known. */
  readonly resetAfterMs: number | null
  /** The server that keeps the counter; null if there is only one. */
  readonly shard: string | null
  /** False if the store did not answer, so that the figures are not those of the store. */
  readonly isCertain: boolean
}

/** Returns the counter, or a sentence about the problem. */
export function findCounter(asked: CounterAsked, rules: RulesInForce): FoundCounter | string {
  const { limits, tiers, overrides } = rules
  const limit = limits.byName.get(asked.limit)
  if (limit === undefined) {
    return `limit: no limit of the policy is named ${JSON.stringify(asked.limit)}`
  }
  const key = liveKey(limit, asked.key)
  const [first] = limit.key.alternatives
  if (key === undefined) {
    return `key: ${limit.name} is counted by ${first?.label}, so it needs ${first?.parts} texts`
  }
  const { tier = tiers?.default ?? '' } = asked
  if (tier !== '' && tiers?.names.includes(tier) !== true) {
    return `tier: ${JSON.stringify(tier)} is not known; allowed: ${tiers?.names.join(', ')}`
  }
  const root = limits.rootOf.get(limit)
  const outerKey = root === limit ? key : root && liveKey(root, asked.within ?? [])
  if (root !== undefined && outerKey === undefined) {
    return `within: ${limit.name} lies within ${root.name}, so the key of ${root.name} is needed`
  }
  const numbers = limit.compiled.limitFor(key, tier, overrides)
  const { hold: _, ...charge } = limit.compiled.chargeOf(key, 0, numbers, outerKey)
  return { limit, charge: { ...charge, cost: 0 } }
}

/** Finds the counters of one key under all limits whose keys have as many parts. */
export function findCounters(key: readonly string[], rules: RulesInForce): readonly FoundCounter[] {
  return rules.limits.limits.flatMap((limit) => {
    if (limit.isOff || limit.settings.key === 'everyone') return []
    const found = findCounter({ limit: limit.name, key }, rules)
    return typeof found === 'string' ? [] : [found]
  })
}

export async function lookUp({ limit, charge }: FoundCounter, store: Store): Promise<CounterState> {
  const [decision] = await store.charge([charge], 'peek')
  if (decision === undefined) throw new Error('the store returned no decision')
  return stateOf(limit, charge, decision, store)
}

/** Forgets used and held units. */
export async function resetCounter({ charge }: FoundCounter, store: Store): Promise<void> {
  await store.reset([charge])
}

/** Gives units back, never below nothing used. */
export async function refundCounter(
  { limit, charge }: FoundCounter,
  units: number,
  store: Store,
): Promise<CounterState> {
  const [decision] = await store.adjust([{ ...charge, units: -units }])
  if (decision === undefined) throw new Error('the store returned no decision')
  return stateOf(limit, charge, decision, store)
}

function stateOf(
  { name }: RequestLimit,
  charge: PlannedCharge,
  { limit: most, remaining, resetAfterMs, degraded }: Decision,
  store: Store,
): CounterState {
  const used = Math.max(0, most - remaining)
  return {
    limit: name,
    keyHash: keyHash(charge.key),
    numbers: charge.limit,
    used,
    left: remaining,
    held: charge.limit.algorithm === 'concurrency' ? used : null,
    resetAfterMs: Number.isFinite(resetAfterMs) ? resetAfterMs : null,
    shard: store.capabilities?.shardOf?.(charge) ?? null,
    isCertain: degraded === null,
  }
}
