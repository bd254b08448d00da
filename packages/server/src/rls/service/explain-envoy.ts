/** Explains a request by Envoy's files: which rules win, which lose, and why. Charges nothing. */

import type { Limit } from 'tidegate'
import type { ChargeGroups } from '../../limits/charging/charge-group.ts'
import { decisionEvents } from '../../limits/charging/charge-plan.ts'
import type { SwitchState } from '../../limits/live/live-entries.ts'
import type { LiveRules } from '../../limits/live/live-rules.ts'
import type { Entry } from '../config/descriptor-tree.ts'
import type { RateLimitRequest } from '../wire/rate-limit-messages.ts'
import { counterKey } from './counter-key.ts'
import { descriptorBlock, type EnvoyIndex } from './envoy-limits.ts'
import { type CallOutcome, callOutcome } from './response.ts'
import type { RlsPlanner } from './rls-plan.ts'

export interface EnvoyParts {
  readonly index: EnvoyIndex
  readonly live: LiveRules
  readonly planner: RlsPlanner
  readonly groups: ChargeGroups
}

export interface EnvoyExplanation {
  readonly verdict: {
    readonly outcome: 'admitted' | 'refused'
    readonly reason: string
  }
  readonly switch: { readonly limits: SwitchState; readonly blocks: 'on' | 'off' }
  readonly descriptors: readonly ExplainedDescriptor[]
}

export interface ExplainedDescriptor {
  readonly entries: readonly Entry[]
  /** The rule by its name in metrics; null if none is for the descriptor. */
  readonly rule: string | null
  /** The live block, and the rule that it wins over. */
  readonly block: { readonly id: string; readonly kind: string; readonly instead: string } | null
  /** Null if nothing is counted. */
  readonly limit: Limit | null
  readonly source: 'live override' | 'limit' | null
  /** The id of the live override, if one holds. */
  readonly override: string | null
  readonly instead: readonly 'limit'[]
}

export async function explainEnvoy(
  domain: string,
  descriptors: readonly (readonly Entry[])[],
  parts: EnvoyParts,
): Promise<EnvoyExplanation> {
  const request = requestOf(domain, descriptors)
  const plan = await parts.planner.plan(request)
  const decisions = await parts.groups.peek(plan.charges)
  const outcome = callOutcome(plan, decisionEvents(plan, decisions))
  const explained = descriptors.map((entries) => explainOne(domain, entries, parts))
  const { state: limits, areBlocksLifted } = parts.live
  return {
    verdict: verdictOf(outcome, explained, limits),
    switch: { limits, blocks: areBlocksLifted ? 'off' : 'on' },
    descriptors: explained,
  }
}

function requestOf(domain: string, descriptors: readonly (readonly Entry[])[]): RateLimitRequest {
  const plain = { limit: undefined, hitsAddend: undefined, isNegativeHits: false }
  return {
    domain,
    hitsAddend: 0,
    descriptors: descriptors.map((entries) => ({ entries, ...plain })),
  }
}

function explainOne(
  domain: string,
  entries: readonly Entry[],
  { index, live }: EnvoyParts,
): ExplainedDescriptor {
  const match = index.matchOf(domain, entries)
  const { keyPrefix } = index
  const path = match?.path ?? []
  const block = descriptorBlock(live, { keyPrefix, domain, entries, path })
  const base = match?.rule.counted?.compiled.base ?? null
  const key = counterKey(keyPrefix, domain, entries, path)
  const override = base === null ? undefined : live.overrideFor(domain, key)
  const instead = live.state === 'off' ? 'the switch, which is off' : 'the limits'
  return {
    entries,
    rule: path.at(-1)?.fullKey ?? null,
    block: block === undefined ? null : { id: block.id, kind: block.kind, instead },
    limit: override ?? base,
    source: override === undefined ? base && 'limit' : 'live override',
    override: override === undefined ? null : (live.findOverride(domain, key)?.id ?? null),
    instead: override === undefined ? [] : ['limit'],
  }
}

const reasons: Readonly<Record<CallOutcome, string>> = {
  within: 'while the limits below have units left',
  over: 'not enough units are left at this time',
  'store-failed': 'the store of the counters does not answer',
}

function verdictOf(
  outcome: CallOutcome,
  descriptors: readonly ExplainedDescriptor[],
  state: SwitchState,
): EnvoyExplanation['verdict'] {
  const block = descriptors.find((one) => one.block !== null)?.block
  if (block) {
    const reason = `a live block by ${block.kind}, ${block.id}, wins over ${block.instead}`
    return { outcome: 'refused', reason }
  }
  if (state !== 'on') return { outcome: 'admitted', reason: `the switch is ${state}` }
  if (outcome !== 'within') return { outcome: 'refused', reason: reasons[outcome] }
  const isLimited = descriptors.some(({ limit }) => limit !== null)
  return { outcome: 'admitted', reason: isLimited ? reasons.within : 'no rule counts it' }
}
