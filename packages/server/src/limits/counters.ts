/**
 * Counters for operators: what a key has used of a limit, and changes of it. A counter is found by
 * the name of a limit and the parts of a key, as overrides name them.
 */

import type { Decision, Limit, Store } from 'tidegate'
import type { PlannedCharge } from './charging/charge-plan.ts'
import type { LimitChange } from './limit-settings.ts'

/** The limits of a service as operators name them. Each front end has its own names. */
export interface OperatedLimits {
  /** Returns the counter, or a sentence about the problem. */
  findCounter(asked: CounterAsked): FoundCounter | string
  /** Finds the counters of one key under all limits with such a key. */
  findCounters(key: readonly string[]): readonly FoundCounter[]
  /** Returns a sentence if a block could not be found by requests. */
  keyProblem(limit: string, key: readonly string[]): string | undefined
  /** Returns a sentence if the override could not hold. */
  overrideProblem(limit: string, key: readonly string[], set: LimitChange): string | undefined
}

export interface CounterAsked {
  readonly limit: string
  readonly key: readonly string[]
  /** The kind of a fallback key, as the policy writes it. Default: the first kind of the limit. */
  readonly kind?: string | undefined
  /** The parts of the outer key, if the limit lies within another. */
  readonly within?: readonly string[] | undefined
  /** Default: the default tier. */
  readonly tier?: string | undefined
}

export interface FoundCounter {
  /** The name of the limit. */
  readonly limit: string
  readonly charge: PlannedCharge
  /** The store that keeps it. */
  readonly store: Store
}

export interface CounterState {
  readonly limit: string
  readonly numbers: Limit
  readonly used: number
  readonly left: number
  /** Units that are set aside by requests under way; null if the limit counts none. */
  readonly held: number | null
  /** Unspent units in the lease of this node; null if the store has no leases. */
  readonly leased: number | null
  /** Null if no time is known. */
  readonly resetAfterMs: number | null
  /** The server that keeps the counter; null if there is only one. */
  readonly shard: string | null
  /** False if the store did not answer, so that the figures are not those of the store. */
  readonly isCertain: boolean
}

export async function lookUp(found: FoundCounter): Promise<CounterState> {
  const [decision] = await found.store.charge([found.charge], 'peek')
  if (decision === undefined) throw new Error('the store returned no decision')
  return stateOf(found, decision)
}

/** Forgets used and held units. */
export async function resetCounter({ charge, store }: FoundCounter): Promise<void> {
  await store.reset([charge])
}

/** Gives units back, never below nothing used. */
export async function refundCounter(found: FoundCounter, units: number): Promise<CounterState> {
  const [decision] = await found.store.adjust([{ ...found.charge, units: -units }])
  if (decision === undefined) throw new Error('the store returned no decision')
  return stateOf(found, decision)
}

function stateOf(
  { limit, charge, store }: FoundCounter,
  { limit: most, remaining, resetAfterMs, degraded }: Decision,
): CounterState {
  const used = Math.max(0, most - remaining)
  return {
    limit,
    numbers: charge.limit,
    used,
    left: remaining,
    held: charge.limit.algorithm === 'concurrency' ? used : null,
    leased: store.capabilities?.leasedOf?.(charge) ?? null,
    resetAfterMs: Number.isFinite(resetAfterMs) ? resetAfterMs : null,
    shard: store.capabilities?.shardOf?.(charge) ?? null,
    isCertain: degraded === null,
  }
}
