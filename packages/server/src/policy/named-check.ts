/**
 * Limits asked by their names, by somebody who knows the keys: the decision API. The counters are
 * those of requests with the same keys, whatever door these come through. What a limit matches does
 * not count here, its mode and its rollout do.
 */

import type { MaybePromise } from 'tidegate'
import { type Asked, type ChargeContext, chargeGroup, unlimited } from './charge-group.ts'
import type { CompiledPolicy } from './compile-policy.ts'
import type { CompiledLimit, Now } from './compiled-limit.ts'
import type { TiersSection } from './tiers-section.ts'
import type { Verdict } from './verdict.ts'

export interface NamedCheck {
  /** All are charged, or none. */
  readonly limits: ReadonlyArray<{
    readonly name: string
    /** The parts of the key, in the order of the policy; none where everybody has the same. */
    readonly key?: readonly string[]
    /** Default: that of the whole check. */
    readonly cost?: number
  }>
  /** Default: 1. */
  readonly cost?: number
  /** The tier of the caller. Default: that of callers without one. */
  readonly tier?: string
  /** True only looks. */
  readonly peek?: boolean
}

/** What is wrong with the question: its place and a sentence. */
interface NamedProblem {
  readonly ok: false
  readonly problem: string
}

export type NamedCheckResult = { readonly ok: true; readonly verdict: Verdict } | NamedProblem

/** A question that can be answered; nothing is charged before `judge` is called. */
export type PreparedCheck = { readonly ok: true; judge(): MaybePromise<Verdict> } | NamedProblem

export interface NamedCheckContext {
  readonly policy: CompiledPolicy
  readonly isEnabled: boolean
  readonly tiers: TiersSection | undefined
  readonly context: ChargeContext
  readonly now: Now
}

/** A question with the limit that it names, and the key. */
interface Named {
  readonly compiled: CompiledLimit
  readonly key: string
  readonly cost: number
}

export function checkNamed(
  asked: NamedCheck,
  context: NamedCheckContext,
): MaybePromise<NamedCheckResult> {
  const prepared = prepareNamed(asked, context)
  if (!prepared.ok) return prepared
  const verdict = prepared.judge()
  if (verdict instanceof Promise) return verdict.then((found) => ({ ok: true, verdict: found }))
  return { ok: true, verdict }
}

export function prepareNamed(
  asked: NamedCheck,
  { policy, isEnabled, tiers, context, now }: NamedCheckContext,
): PreparedCheck {
  const named = namedOf(asked, policy)
  if (typeof named === 'string') return { ok: false, problem: named }
  const { tier = tiers?.default ?? '', peek = false } = asked
  if (tier !== '' && tiers?.names.includes(tier) !== true) {
    const allowed = tiers === undefined ? 'this policy has none' : tiers.names.join(', ')
    const problem = `tier: ${JSON.stringify(tier)} is not known; allowed: ${allowed}`
    return { ok: false, problem }
  }
  const enforced: Asked[] = []
  const shadows: Asked[] = []
  for (const { compiled, key, cost } of named) {
    if (!isEnabled || compiled.isOff || !compiled.hasReached(key)) continue
    const root = policy.rootOf.get(compiled)
    const outerKey = named.find((other) => other.compiled === root)?.key
    if (root !== undefined && outerKey === undefined) {
      const problem = `limits: ${compiled.name} lies within ${root.name}, so that one is needed too`
      return { ok: false, problem }
    }
    const charge = compiled.chargeOf(key, tier, cost, outerKey, now)
    const list = compiled.isShadow ? shadows : enforced
    list.push({ compiled, charge })
  }
  if (enforced.length === 0 && shadows.length === 0) return { ok: true, judge: () => unlimited }
  const mode = peek ? 'peek' : 'all'
  return { ok: true, judge: () => chargeGroup(enforced, shadows, context, mode) }
}

function namedOf(asked: NamedCheck, policy: CompiledPolicy): readonly Named[] | string {
  const named: Named[] = []
  for (const [at, { name, key = [], cost = asked.cost ?? 1 }] of asked.limits.entries()) {
    const place = `limits[${at}]`
    const compiled = policy.byName.get(name)
    if (compiled === undefined)
      return `${place}.name: no limit of the policy is named ${JSON.stringify(name)}`
    if (named.some((other) => other.compiled === compiled))
      return `${place}.name: ${name} stands there twice`
    if (compiled.section.algorithm === 'concurrency') {
      return `${place}.name: ${name} is a concurrency limit, which only the gateway can hold`
    }
    if (!Number.isSafeInteger(cost) || cost < 0)
      return `${place}.cost: ${cost} is not allowed; allowed: a whole number from 0`
    const text = keyOf(compiled, key)
    if (text === undefined) {
      const { label = '' } = compiled.key.alternatives[0] ?? {}
      const why = `${name} is counted by ${label}, so the key is a text for each part of that`
      return `${place}.key: ${why}`
    }
    named.push({ compiled, key: text, cost })
  }
  return named
}

function keyOf({ key, section }: CompiledLimit, parts: readonly string[]): string | undefined {
  const [first] = key.alternatives
  if (section.key === 'everyone' && parts.length === 0) return first?.fromParts(['everyone'])
  if (first === undefined || parts.length !== first.parts) return undefined
  return parts.some((part) => part === '') ? undefined : first.fromParts(parts)
}
