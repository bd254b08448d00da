/**
 * Charges limits by name, for callers that know the keys, such as the decision API. The counters
 * are those of requests with the same keys. The `match` of a limit is ignored; its mode and its
 * rollout apply.
 */

import type { MaybePromise } from 'tidegate'
import type { PlannedCharge } from './charging/charge-plan.ts'
import type { LimitSet } from './compile/limit-set.ts'
import type { Overrides } from './compile/overrides.ts'
import type { RequestLimit } from './compile/request-limit.ts'
import { type EvaluateContext, evaluate } from './evaluate.ts'
import type { TierSettings } from './limit-settings.ts'
import type { LiveRules } from './live/live-rules.ts'
import { blockedOutcome, type RequestOutcome, unlimited } from './outcome.ts'

export interface NamedCheck {
  /** All are charged, or none. */
  readonly limits: ReadonlyArray<{
    readonly name: string
    /** The parts of the key, in the order of the policy; none for the key `everyone`. */
    readonly key?: readonly string[]
    /** Default: the cost of the check. */
    readonly cost?: number
  }>
  /** Default: 1. */
  readonly cost?: number
  /** The tier of the caller. Default: the default tier. */
  readonly tier?: string
  /** True charges nothing. */
  readonly peek?: boolean
}

/** A problem of the check: its place and a sentence. */
interface NamedProblem {
  readonly ok: false
  readonly problem: string
}

export type NamedCheckResult =
  | { readonly ok: true; readonly outcome: RequestOutcome }
  | NamedProblem

/** A valid check; nothing is charged before `evaluate` is called. */
export type PreparedCheck =
  | { readonly ok: true; evaluate(): MaybePromise<RequestOutcome> }
  | NamedProblem

export interface NamedCheckContext {
  readonly limits: LimitSet
  readonly isEnabled: boolean
  readonly tiers: TierSettings | undefined
  readonly overrides: Overrides
  readonly live: LiveRules
  readonly context: EvaluateContext
}

/** One limit of a check, with its key. */
interface Named {
  readonly limit: RequestLimit
  readonly key: string
  readonly cost: number
}

export function checkNamed(
  asked: NamedCheck,
  context: NamedCheckContext,
): MaybePromise<NamedCheckResult> {
  const prepared = prepareNamed(asked, context)
  if (!prepared.ok) return prepared
  const outcome = prepared.evaluate()
  if (outcome instanceof Promise) return outcome.then((found) => ({ ok: true, outcome: found }))
  return { ok: true, outcome }
}

export function prepareNamed(
  asked: NamedCheck,
  { limits, isEnabled, tiers, overrides, live, context }: NamedCheckContext,
): PreparedCheck {
  const named = namedOf(asked, limits)
  if (typeof named === 'string') return { ok: false, problem: named }
  const { tier = tiers?.default ?? '', peek = false } = asked
  if (tier !== '' && tiers?.names.includes(tier) !== true) {
    const allowed = tiers === undefined ? 'this policy has none' : tiers.names.join(', ')
    const problem = `tier: ${JSON.stringify(tier)} is not known; allowed: ${allowed}`
    return { ok: false, problem }
  }
  const { state } = live
  const enforced: PlannedCharge[] = []
  const shadows: PlannedCharge[] = []
  for (const { limit, key, cost } of named) {
    const block = live.keyBlock(limit.name, key)
    if (block !== undefined) return { ok: true, evaluate: () => blockedOutcome(block) }
    if (!isEnabled || state === 'off' || limit.isOff || !limit.includes(key)) continue
    const { compiled } = limit
    const root = limits.rootOf.get(limit)
    const outerKey = named.find((other) => other.limit === root)?.key
    if (root !== undefined && outerKey === undefined) {
      const { name } = root
      const problem = `limits: ${limit.name} lies within ${name}, so that ${name} is needed too`
      return { ok: false, problem }
    }
    const numbers = compiled.limitFor(key, tier, overrides)
    const charge = compiled.chargeOf(key, cost, numbers, outerKey)
    if (compiled.isShadow || state === 'shadow') shadows.push({ ...charge, isShadow: true })
    else enforced.push(charge)
  }
  if (enforced.length === 0 && shadows.length === 0) return { ok: true, evaluate: () => unlimited }
  const mode = peek ? 'peek' : 'all'
  return { ok: true, evaluate: () => evaluate({ enforced, shadows }, context, mode) }
}

function namedOf(asked: NamedCheck, { byName }: LimitSet): readonly Named[] | string {
  const named: Named[] = []
  for (const [at, { name, key = [], cost = asked.cost ?? 1 }] of asked.limits.entries()) {
    const place = `limits[${at}]`
    const limit = byName.get(name)
    if (limit === undefined)
      return `${place}.name: no limit of the policy is named ${JSON.stringify(name)}`
    if (named.some((other) => other.limit === limit)) return `${place}.name: ${name} is named twice`
    if (limit.settings.algorithm === 'concurrency') {
      return `${place}.name: ${name} is a concurrency limit, which only the gateway supports`
    }
    if (!Number.isSafeInteger(cost) || cost < 0)
      return `${place}.cost: ${cost} is not allowed; allowed: a whole number from 0`
    const text = keyOf(limit, key)
    if (text === undefined) {
      const { label = '' } = limit.key.alternatives[0] ?? {}
      const why = `${name} is counted by ${label}, so the key needs a text for each part`
      return `${place}.key: ${why}`
    }
    named.push({ limit, key: text, cost })
  }
  return named
}

function keyOf({ key, settings }: RequestLimit, parts: readonly string[]): string | undefined {
  const [first] = key.alternatives
  if (settings.key === 'everyone' && parts.length === 0) return first?.fromParts(['everyone'])
  if (first === undefined || parts.length !== first.parts) return undefined
  return parts.some((part) => part === '') ? undefined : first.fromParts(parts)
}
