/**
 * The enforcer: from a request to a verdict by the limits of one policy. It is made once for a
 * policy and asked for every request; a changed policy is another enforcer on the same store, where
 * the counters of limits that stayed go on.
 *
 * On a store in memory, and unless a tier has to be fetched, it answers without a promise.
 */

import { type Clock, type MaybePromise, type Store, systemClock } from 'tidegate'
import { type Asked, type ChargeContext, chargeGroup, keyless, unlimited } from './charge-group.ts'
import { type CompiledPolicy, compilePolicy, type LimitingDocument } from './compile-policy.ts'
import type { CompiledLimit, Now } from './compiled-limit.ts'
import { type Explanation, explain } from './explain.ts'
import { compileIpLists, type IpVerdict } from './ip-lists.ts'
import { readKey } from './key-of.ts'
import {
  checkNamed,
  type NamedCheck,
  type NamedCheckContext,
  type NamedCheckResult,
  type PreparedCheck,
  prepareNamed,
} from './named-check.ts'
import type { PolicyObserver } from './policy-observer.ts'
import type { RequestFacts } from './request-facts.ts'
import { compilePriorities, type RequestPriorities } from './request-priorities.ts'
import type { TierTable } from './tier-table.ts'
import { createTiers, noTiers, type Tiers } from './tiers.ts'
import type { Verdict } from './verdict.ts'

export interface Enforcer {
  /** Judges and charges. Rejects only where the store refuses to be used in this way. */
  judge(facts: RequestFacts): MaybePromise<Verdict>
  /** What the lists say to an address; whoever is allowed there is not to be judged. */
  ipVerdict(ip: string | undefined): IpVerdict
  /** Which limits are for such a request and which are not, and why. Charges nothing. */
  explain(facts: RequestFacts): MaybePromise<Explanation>
  /** Judges and charges limits by their names, for those who know the keys themselves. */
  check(asked: NamedCheck): MaybePromise<NamedCheckResult>
  /** The same in two steps, for several of which none is to be charged where one is wrong. */
  prepare(asked: NamedCheck): PreparedCheck
  /** Which requests matter more than others when not all can be served. */
  readonly priorities: RequestPriorities
  /** The tiers of callers, for the enforcer that comes after. */
  readonly tiers: Tiers
  /** To be called when nobody asks any more; verdicts under way are not lost. The store stays. */
  close(): void
}

export interface EnforcerOptions {
  /** With everything in front that belongs there: `frontStore` of the library. */
  readonly store: Store
  /** Default: the system's. For overrides that expire and tiers that are remembered. */
  readonly clock?: Clock
  readonly observer?: PolicyObserver
  /** The file of `tiers.lookup.file`. */
  readonly tierTable?: TierTable
  /** The enforcer of the policy before: tiers that it has looked up are still known. */
  readonly after?: Enforcer
}

/** A limit that a request falls under. What depends on its path is found before anything waits. */
interface Matched {
  readonly compiled: CompiledLimit
  readonly route: string
  readonly cost: number
}

export function createEnforcer(document: LimitingDocument, options: EnforcerOptions): Enforcer {
  const { clock = systemClock, observer = () => undefined, tierTable, after } = options
  const tiers =
    document.tiers === undefined
      ? noTiers
      : createTiers(document.tiers, { clock, observer, table: tierTable, after: after?.tiers })
  return new PolicyEnforcer(document, {
    tiers,
    now: () => clock.now(),
    context: { store: options.store, observer },
  })
}

interface EnforcerParts {
  readonly tiers: Tiers
  readonly now: Now
  readonly context: ChargeContext
}

class PolicyEnforcer implements Enforcer {
  readonly ipVerdict: (ip: string | undefined) => IpVerdict
  readonly priorities: RequestPriorities
  readonly tiers: Tiers
  readonly #document: LimitingDocument
  readonly #policy: CompiledPolicy
  /** Those that are not off. */
  readonly #active: readonly CompiledLimit[]
  readonly #context: ChargeContext
  readonly #now: Now

  constructor(document: LimitingDocument, { tiers, now, context }: EnforcerParts) {
    this.ipVerdict = compileIpLists(document.ipLists)
    this.tiers = tiers
    this.priorities = compilePriorities(document, tiers)
    this.#document = document
    this.#policy = compilePolicy(document)
    this.#active = document.enabled ? this.#policy.limits.filter(({ isOff }) => !isOff) : []
    this.#context = context
    this.#now = now
  }

  judge(facts: RequestFacts): MaybePromise<Verdict> {
    const matched = this.#match(facts)
    if (matched.length === 0) return unlimited
    if (!matched.some(({ compiled }) => compiled.needsTier)) return this.#judge(facts, matched, '')
    const tier = this.tiers.tierOf(facts.identity)
    if (typeof tier === 'string') return this.#judge(facts, matched, tier)
    return tier.then((found) => this.#judge(facts, matched, found))
  }

  explain(facts: RequestFacts): MaybePromise<Explanation> {
    const about = (tier: string) =>
      explain(facts, {
        policy: this.#policy,
        isEnabled: this.#document.enabled,
        ip: this.ipVerdict(facts.ip),
        tier: this.#document.tiers === undefined ? undefined : tier,
        now: this.#now,
      })
    const tier = this.tiers.tierOf(facts.identity)
    return typeof tier === 'string' ? about(tier) : tier.then(about)
  }

  check(asked: NamedCheck): MaybePromise<NamedCheckResult> {
    return checkNamed(asked, this.#namedContext())
  }

  prepare(asked: NamedCheck): PreparedCheck {
    return prepareNamed(asked, this.#namedContext())
  }

  close(): void {
    this.tiers.close()
  }

  #namedContext(): NamedCheckContext {
    return {
      policy: this.#policy,
      isEnabled: this.#document.enabled,
      tiers: this.#document.tiers,
      context: this.#context,
      now: this.#now,
    }
  }

  #match(facts: RequestFacts): readonly Matched[] {
    const matched: Matched[] = []
    if (this.#active.length === 0) return matched
    this.#policy.book.read(facts.path)
    for (const compiled of this.#active) {
      if (!compiled.match.matches(facts)) continue
      const cost = compiled.fixedCost ?? compiled.costOf(facts)
      matched.push({ compiled, route: compiled.match.route() ?? '', cost })
    }
    return matched
  }

  #judge(facts: RequestFacts, matched: readonly Matched[], tier: string): MaybePromise<Verdict> {
    const enforced: Asked[] = []
    const shadows: Asked[] = []
    for (const { compiled, route, cost } of matched) {
      const key = this.#keyOf(compiled, facts, tier, route)
      if (key === undefined) {
        // In shadow mode nobody is refused, for a missing key neither.
        if (compiled.key.end === 'deny' && !compiled.isShadow) return keyless(compiled.name)
        continue
      }
      if (!compiled.hasReached(key)) continue
      const root = this.#policy.rootOf.get(compiled)
      const outerKey = root === undefined ? undefined : readKey(root.key, facts, tier, '')
      const charge = compiled.chargeOf(key, tier, cost, outerKey, this.#now)
      const list = compiled.isShadow ? shadows : enforced
      list.push({ compiled, charge })
    }
    if (enforced.length === 0 && shadows.length === 0) return unlimited
    return chargeGroup(enforced, shadows, this.#context)
  }

  /** The key, or the first that is there of those to take instead. */
  #keyOf(compiled: CompiledLimit, facts: RequestFacts, tier: string, route: string) {
    const { alternatives, end } = compiled.key
    const key = alternatives[0]?.read(facts, tier, route)
    if (key !== undefined) return key
    const other = readKey(compiled.key, facts, tier, route)
    const action = other === undefined ? end : 'fallback'
    this.#context.observer({ type: 'keyless', limit: compiled.name, action })
    return other
  }
}
