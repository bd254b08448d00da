/** For each limit of a policy, whether it is for a request, with which key, and why not if not. */

import type { Limit } from 'tidegate'
import { keyHash } from './charge-group.ts'
import type { CompiledPolicy } from './compile-policy.ts'
import type { CompiledLimit, Now } from './compiled-limit.ts'
import type { IpVerdict } from './ip-lists.ts'
import { type KeyAlternative, readKey } from './key-of.ts'
import type { LimitSection } from './limits-section.ts'
import type { RequestFacts } from './request-facts.ts'

export interface Explanation {
  /** False where the policy is turned off, so that no limit is asked. */
  readonly isEnabled: boolean
  /** What the lists of addresses say; both end it before any limit is asked. */
  readonly ip: IpVerdict
  /** Undefined where the policy has no tiers. */
  readonly tier: string | undefined
  /** All limits, in the order of the policy. */
  readonly limits: readonly ExplainedLimit[]
}

export type ExplainedLimit = {
  readonly name: string
  readonly mode: LimitSection['mode']
} & (AppliedExplanation | { readonly applies: false; readonly reason: string })

interface AppliedExplanation {
  readonly applies: true
  /** Such as `apiKey`, or that of a fallback. */
  readonly keyKind: string
  readonly key: string
  /** As it stands in logs. */
  readonly keyHash: string
  /** The key of the limit that it lies within. */
  readonly within: string | undefined
  readonly cost: number
  readonly limit: Limit
  /** Where the numbers come from. */
  readonly source: 'limit' | 'tier' | 'override'
  /** Whether the request had no key of the first kind. */
  readonly isFallback: boolean
}

export interface ExplainContext {
  readonly policy: CompiledPolicy
  readonly isEnabled: boolean
  readonly ip: IpVerdict
  readonly tier: string | undefined
  readonly now: Now
}

export function explain(facts: RequestFacts, context: ExplainContext): Explanation {
  const { policy, isEnabled, ip, tier } = context
  policy.book.read(facts.path)
  const limits = policy.limits.map((limit) => ({
    name: limit.name,
    mode: limit.section.mode,
    ...explainLimit(limit, facts, context),
  }))
  return { isEnabled, ip, tier, limits }
}

function explainLimit(
  limit: CompiledLimit,
  facts: RequestFacts,
  { policy, isEnabled, tier = '', now }: ExplainContext,
): AppliedExplanation | { readonly applies: false; readonly reason: string } {
  if (!isEnabled) return not('the policy is turned off')
  if (limit.isOff) return not('its mode is off')
  const reason = limit.match.whyNot(facts)
  if (reason !== undefined) return not(reason)
  const route = limit.match.route() ?? ''
  const { alternatives, end } = limit.key
  const kinds = alternatives.map(({ label }) => label).join(', ')
  const found = alternatives.find((one) => one.read(facts, tier, route) !== undefined)
  const key = found?.read(facts, tier, route)
  if (found === undefined || key === undefined) {
    const isRefused = end === 'deny' && !limit.isShadow
    return not(`there is no key (${kinds}), so ${isRefused ? 'it is refused' : 'it is skipped'}`)
  }
  if (!limit.hasReached(key)) {
    return not(`the rollout of ${limit.section.rollout} percent has not reached this key`)
  }
  const root = policy.rootOf.get(limit)
  return {
    applies: true,
    keyKind: (found satisfies KeyAlternative).label,
    key,
    keyHash: keyHash(key),
    within: root === undefined ? undefined : readKey(root.key, facts, tier, ''),
    cost: limit.section.algorithm === 'concurrency' ? 1 : limit.costOf(facts),
    limit: limit.limitFor(key, tier, now),
    source: sourceOf(limit, key, tier, now),
    isFallback: found !== alternatives[0],
  }
}

function not(reason: string) {
  return { applies: false, reason } as const
}

function sourceOf(limit: CompiledLimit, key: string, tier: string, now: Now) {
  if (limit.overrideFor(key, now) !== undefined) return 'override'
  return Object.hasOwn(limit.section.tiers ?? {}, tier) ? 'tier' : 'limit'
}
