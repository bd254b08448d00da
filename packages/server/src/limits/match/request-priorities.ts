/**
 * The priorities that limits and tiers of a policy give to requests. Only limits that state a
 * priority are compiled, so that a policy without priorities pays nothing. Whether
 * limiting is enabled makes no difference: overload does not depend on it.
 */

import type { MaybePromise } from 'tidegate'
import type { LimitSetSettings } from '../limit-settings.ts'
import { higher, type Priority } from '../priority.ts'
import type { Identity, RequestFacts } from '../request-facts.ts'
import type { Tiers } from '../tiers/tiers.ts'
import { PatternSet, RequestMatch } from './request-match.ts'

/** The highest priority of those that apply counts; undefined if none applies. */
export interface RequestPriorities {
  /** The highest that a limit gives. */
  readonly limitMax: Priority | undefined
  /** The highest that a tier gives. A request may have it until its caller is authenticated. */
  readonly tierMax: Priority | undefined
  /** By the limits that match the request. */
  ofRequest(facts: RequestFacts): Priority | undefined
  /** By the tier of the caller. */
  ofCaller(identity: Identity): MaybePromise<Priority | undefined>
  /** By limits that are named. */
  ofLimits(names: readonly string[]): Priority | undefined
  /** By a tier that is named. */
  ofTier(name: string | undefined): Priority | undefined
}

interface Rule {
  readonly match: RequestMatch
  readonly priority: Priority
}

export function compilePriorities(document: LimitSetSettings, tiers: Tiers): RequestPriorities {
  const patterns = new PatternSet()
  const rules: Rule[] = []
  const byLimit = new Map<string, Priority>()
  for (const { name, match, mode, priority } of document.limits) {
    if (priority === undefined || mode === 'off') continue
    byLimit.set(name, priority)
    rules.push({ match: new RequestMatch(match, patterns, document.region), priority })
  }
  const byTier = new Map(Object.entries(document.tiers?.priorities ?? {}))
  const tierMax = highest(byTier.values())
  return {
    limitMax: highest(byLimit.values()),
    tierMax,
    ofRequest(facts) {
      if (rules.length === 0) return undefined
      patterns.read(facts.path)
      let found: Priority | undefined
      for (const { match, priority } of rules) {
        if (match.matches(facts)) found = higher(found, priority)
      }
      return found
    },
    ofCaller(identity) {
      if (tierMax === undefined) return undefined
      const tier = tiers.tierOf(identity)
      return typeof tier === 'string' ? byTier.get(tier) : tier.then((found) => byTier.get(found))
    },
    ofLimits: (names) => highest(names.map((name) => byLimit.get(name))),
    ofTier: (name) => (name === undefined ? undefined : byTier.get(name)),
  }
}

function highest(all: Iterable<Priority | undefined>): Priority | undefined {
  let found: Priority | undefined
  for (const one of all) found = higher(found, one)
  return found
}
