/** Explains for each limit why it applies to a request and with which key, or why it does not. */

import type { Limit } from 'tidegate'
import type { LimitSet } from './compile/limit-set.ts'
import { noOverrides, type Overrides } from './compile/overrides.ts'
import type { RequestLimit } from './compile/request-limit.ts'
import { readKey } from './key-plan.ts'
import { keyPartsOf } from './key-text.ts'
import type { LimitMode } from './limit-settings.ts'
import type { LiveBlock, SwitchState } from './live/live-entries.ts'
import type { LiveRules } from './live/live-rules.ts'
import type { IpRule } from './match/ip-lists.ts'
import type { RequestFacts } from './request-facts.ts'

/** The origins of a limit's numbers, from the one that wins to the one that loses. */
export const numberSources = ['live override', 'override', 'tier', 'limit'] as const

export type NumberSource = (typeof numberSources)[number]

export interface Explanation {
  /** The switch of operators; `until` is in milliseconds since 1970, null for no end. */
  readonly switch: {
    readonly limits: SwitchState
    readonly blocks: 'on' | 'off'
    readonly until: number | null
  }
  /** The live block of the request. It wins over both IP lists and all limits. */
  readonly block: ExplainedBlock | undefined
  /** False if the policy is disabled, so that no limit applies. */
  readonly isEnabled: boolean
  /** The list that the address is on; no limit applies then. */
  readonly ip: IpRule
  /** Undefined if the policy has no tiers. */
  readonly tier: string | undefined
  /** All limits, in the order of the policy. */
  readonly limits: readonly ExplainedLimit[]
}

export interface ExplainedBlock extends Pick<LiveBlock, 'id' | 'kind' | 'answer'> {
  /** In milliseconds since 1970; null for no end. */
  readonly until: number | null
  /** The rule that would have decided without the block. */
  readonly instead: string
}

export type ExplainedLimit = {
  readonly name: string
  readonly mode: LimitMode
} & (AppliedExplanation | AbsentExplanation)

interface AbsentExplanation {
  readonly applies: false
  /** True if the limit refuses the request with 401, because its key is missing. */
  readonly refuses: boolean
  readonly reason: string
}

interface AppliedExplanation {
  readonly applies: true
  /** Such as `apiKey`, or that of a fallback. */
  readonly keyKind: string
  /** The key of the counter in the store. */
  readonly key: string
  /** The parts of the key, in the order of `keyKind`; long ones as digests. */
  readonly keyParts: readonly string[]
  /** The parts of the outer key, if the limit lies within another. */
  readonly within: readonly string[] | undefined
  readonly cost: number
  readonly limit: Limit
  /** The origin of the numbers. */
  readonly source: NumberSource
  /** Origins that lost, in the order in which they would have won. */
  readonly instead: readonly NumberSource[]
  /** The id of the live override, if one holds. */
  readonly override: string | undefined
  /** True if the request has only a fallback key. */
  readonly isFallback: boolean
}

export interface ExplainContext {
  readonly limits: LimitSet
  readonly isEnabled: boolean
  readonly ip: IpRule
  readonly tier: string | undefined
  readonly live: LiveRules
  /** The overrides of the document. */
  readonly documented: Overrides
}

export function explain(facts: RequestFacts, context: ExplainContext): Explanation {
  const { limits: set, isEnabled, ip, tier } = context
  set.patterns.read(facts.path)
  const limits = set.limits.map((limit) => ({
    name: limit.name,
    mode: limit.settings.mode,
    ...explainLimit(limit, facts, context),
  }))
  const block = explainBlock(facts, context)
  return { switch: explainSwitch(context.live), block, isEnabled, ip, tier, limits }
}

function explainSwitch(live: LiveRules): Explanation['switch'] {
  const { state, areBlocksLifted, entries } = live
  const isActive = state !== 'on' || areBlocksLifted
  const until = isActive ? finite(entries.switch?.expiresAt) : null
  return { limits: state, blocks: areBlocksLifted ? 'off' : 'on', until }
}

function explainBlock(facts: RequestFacts, context: ExplainContext): ExplainedBlock | undefined {
  const { live, ip } = context
  const block = live.addressBlock(facts.ip) ?? live.identityBlock(facts) ?? keyBlock(facts, context)
  if (block === undefined) return undefined
  const { id, kind, answer, expiresAt } = block
  const instead = ip === undefined ? 'the limits' : `the ${ip} list of ipLists`
  return { id, kind, answer, until: finite(expiresAt), instead }
}

/** Also finds blocks of keys while the switch is off, as `plan` does. */
function keyBlock(
  facts: RequestFacts,
  { limits, isEnabled, tier = '', live }: ExplainContext,
): LiveBlock | undefined {
  if (!isEnabled || !live.hasKeyBlocks) return undefined
  for (const limit of limits.limits) {
    if (limit.isOff || limit.match.whyNot(facts) !== undefined) continue
    const key = readKey(limit.key, facts, tier, limit.match.route() ?? '')
    const block = key === undefined ? undefined : live.keyBlock(limit.name, key)
    if (block !== undefined) return block
  }
  return undefined
}

/** JSON has no Infinity. */
function finite(timeMs: number | undefined): number | null {
  return timeMs !== undefined && Number.isFinite(timeMs) ? timeMs : null
}

function explainLimit(
  limit: RequestLimit,
  facts: RequestFacts,
  { limits, isEnabled, tier = '', live, documented }: ExplainContext,
): AppliedExplanation | AbsentExplanation {
  if (!isEnabled) return not('the policy is turned off')
  if (limit.isOff) return not('its mode is off')
  if (live.state === 'off') return not('the switch is off')
  const reason = limit.match.whyNot(facts)
  if (reason !== undefined) return not(reason)
  const route = limit.match.route() ?? ''
  const { alternatives, end } = limit.key
  const kinds = alternatives.map(({ label }) => label).join(', ')
  const found = alternatives.find((one) => one.read(facts, tier, route) !== undefined)
  const key = found?.read(facts, tier, route)
  if (found === undefined || key === undefined) {
    const isRefused = end === 'deny' && !limit.compiled.isShadow
    const reason = `there is no key (${kinds}), so ${isRefused ? 'it is refused' : 'it is skipped'}`
    return { ...not(reason), refuses: isRefused }
  }
  if (!limit.includes(key)) {
    return not(`the rollout of ${limit.settings.rollout} percent has not reached this key`)
  }
  const root = limits.rootOf.get(limit)
  return {
    applies: true,
    keyKind: found.label,
    key,
    keyParts: keyPartsOf(key, found),
    within: root === undefined ? undefined : outerParts(root, facts, tier),
    cost: limit.settings.algorithm === 'concurrency' ? 1 : limit.costOf(facts),
    ...numbersOf(limit, key, tier, live, documented),
    isFallback: found !== alternatives[0],
  }
}

function not(reason: string) {
  return { applies: false, refuses: false, reason } as const
}

function outerParts(
  { key }: RequestLimit,
  facts: RequestFacts,
  tier: string,
): readonly string[] | undefined {
  for (const alternative of key.alternatives) {
    const text = alternative.read(facts, tier, '')
    if (text !== undefined) return keyPartsOf(text, alternative)
  }
  return undefined
}

function numbersOf(
  { compiled }: RequestLimit,
  key: string,
  tier: string,
  live: LiveRules,
  documented: Overrides,
): Pick<AppliedExplanation, 'limit' | 'source' | 'instead' | 'override'> {
  const found = {
    'live override': live.overrideFor(compiled.name, key),
    override: documented.overrideFor(compiled.name, key),
    tier: compiled.hasTier(tier) ? compiled.limitFor(key, tier, noOverrides) : undefined,
    limit: compiled.base,
  }
  const sources = numberSources.filter((source) => found[source] !== undefined)
  const [source = 'limit', ...instead] = sources
  const override =
    source === 'live override' ? live.findOverride(compiled.name, key)?.id : undefined
  return { limit: found[source] ?? compiled.base, source, instead, override }
}
