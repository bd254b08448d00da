/**
 * The enforcer decides requests by the limits of one policy. A changed policy is another enforcer
 * on the same store, in which limits that stay keep their counters.
 *
 * On a memory store it returns without a promise, unless a tier has to be looked up.
 */

import { type Clock, type MaybePromise, type Store, systemClock } from 'tidegate'
import { ChargeGroups } from './charging/charge-group.ts'
import type { ChargeListener, PlannedCharge } from './charging/charge-plan.ts'
import { oneStore } from './charging/store-router.ts'
import {
  checkNamed,
  type NamedCheck,
  type NamedCheckContext,
  type NamedCheckResult,
  type PreparedCheck,
  prepareNamed,
} from './check-by-name.ts'
import { documentOverrides, type Now } from './compile/document-overrides.ts'
import { compileLimits, type LimitSet } from './compile/limit-set.ts'
import { bothOverrides, type Overrides } from './compile/overrides.ts'
import type { RequestLimit } from './compile/request-limit.ts'
import { type EvaluateContext, evaluate, type RequestCharges } from './evaluate.ts'
import { type Explanation, explain } from './explain.ts'
import { readKey } from './key-plan.ts'
import type { LimitSetSettings } from './limit-settings.ts'
import type { PolicyObserver } from './limits-observer.ts'
import {
  type LiveBlock,
  type LiveEntries,
  noEntries,
  type SwitchState,
} from './live/live-entries.ts'
import { indexOf, type LiveKeys, LiveRules } from './live/live-rules.ts'
import { compileIpLists, type IpRule } from './match/ip-lists.ts'
import { compilePriorities, type RequestPriorities } from './match/request-priorities.ts'
import { blockedOutcome, missingKeyOutcome, type RequestOutcome, unlimited } from './outcome.ts'
import type { RequestFacts } from './request-facts.ts'
import { createTiers, noTiers, type Tiers, type TierTable } from './tiers/tiers.ts'

export interface Enforcer {
  /** Charges the limits of a request. Rejects only if the store is misconfigured. */
  evaluate(facts: RequestFacts, asked?: RequestCheck): MaybePromise<RequestOutcome>
  /**
   * The live block of an address, which holds whatever list the address is on. `evaluate` and
   * `plan` find it too; a front end asks earlier, before it authenticates a caller.
   */
  addressBlock(ip: string | undefined): LiveBlock | undefined
  /** The list that an address is on. Requests of an allowed address are not limited. */
  ipRule(ip: string | undefined): IpRule
  /** The counters that `evaluate` would charge for a request. Charges nothing. */
  plan(facts: RequestFacts, asked?: RequestCheck): MaybePromise<RequestPlan>
  /** For each limit: does it apply to the request, and why. Charges nothing. */
  explain(facts: RequestFacts): MaybePromise<Explanation>
  /** Charges limits by name, for callers that know the keys. */
  check(asked: NamedCheck): MaybePromise<NamedCheckResult>
  /** Validates a check by name without charging it. */
  prepare(asked: NamedCheck): PreparedCheck
  /** Replaces all live entries in one step. */
  use(entries: LiveEntries): void
  /** The limits of the policy with the rules in force, for operators. */
  rules(): RulesInForce
  /** The priorities of requests in an overload. */
  readonly priorities: RequestPriorities
  /** The tiers of callers, for the next enforcer. */
  readonly tiers: Tiers
  /** Ends tier look-ups. Pending requests complete, and the store stays open. */
  close(): void
}

/** Differences from the policy for one request. */
export interface RequestCheck {
  /** Units to charge instead of the costs in the policy; 0 charges nothing. Slots take one. */
  readonly cost?: number | undefined
  /** True charges nothing. */
  readonly peek?: boolean
  /** True for an address on the allow list: it is not limited, but it can be blocked. */
  readonly isExempt?: boolean
  /** True if the caller has asked for the block of the address. */
  readonly isAddressChecked?: boolean
  /** Called around a charge that had to wait for a tier, so that it can be traced. */
  readonly within?: <T>(charge: () => T) => T
}

/** Identifies the counters that an operator reads or changes. */
export interface RulesInForce {
  readonly limits: LimitSet
  readonly overrides: Overrides
  readonly tiers: LimitSetSettings['tiers']
}

export interface EnforcerOptions {
  /** A remote store must have its front: `frontStore` of the library. */
  readonly store: Store
  /** For overrides that expire and for cached tiers. Default: the system's clock. */
  readonly clock?: Clock
  readonly observer?: PolicyObserver
  /** Receives every decision of a limit that charges. */
  readonly onDecision?: ChargeListener
  /** Changes of operators, which `use` replaces. Default: none. */
  readonly live?: LiveEntries
  /** The file of `tiers.lookup.file`. */
  readonly tierTable?: TierTable
  /** The enforcer of the policy before: its cached tiers are kept. */
  readonly after?: Enforcer
}

/** The charges of a request, or its block, or the name of the limit whose key it lacks. */
export type RequestPlan =
  | RequestCharges
  | { readonly missingKeyOf: string }
  | { readonly blockedBy: LiveBlock }

/** A limit that a request falls under. Everything that depends on its path is found first. */
interface Matched {
  readonly limit: RequestLimit
  /** The live entries of its keys, if it has any. */
  readonly keys: LiveKeys | undefined
  readonly route: string
  readonly cost: number
}

const asDeclared: RequestCheck = {}

const noCharges: RequestCharges = Object.freeze({ enforced: [], shadows: [] })

export function createEnforcer(settings: LimitSetSettings, options: EnforcerOptions): Enforcer {
  const { clock = systemClock, observer = () => undefined, tierTable, after } = options
  const tiers =
    settings.tiers === undefined
      ? noTiers
      : createTiers(settings.tiers, { clock, observer, table: tierTable, after: after?.tiers })
  const limits = compileLimits(settings)
  const now = () => clock.now()
  const enforcer = new LimitEnforcer(settings, {
    tiers,
    limits,
    documented: documentOverrides(settings.overrides, limits.byName, now),
    now,
    context: {
      groups: new ChargeGroups(oneStore(options.store)),
      observer,
      onDecision: options.onDecision,
    },
  })
  if (options.live !== undefined) enforcer.use(options.live)
  return enforcer
}

interface EnforcerParts {
  readonly tiers: Tiers
  readonly limits: LimitSet
  /** The overrides of the document. */
  readonly documented: Overrides
  readonly now: Now
  readonly context: EvaluateContext
}

class LimitEnforcer implements Enforcer {
  readonly ipRule: (ip: string | undefined) => IpRule
  readonly priorities: RequestPriorities
  readonly tiers: Tiers
  readonly #settings: LimitSetSettings
  readonly #limits: LimitSet
  /** Those that are not off. */
  readonly #active: readonly RequestLimit[]
  readonly #documented: Overrides
  readonly #now: Now
  readonly #context: EvaluateContext
  #live: LiveRules
  /** The live entries of each active limit. */
  #liveKeys: readonly (LiveKeys | undefined)[] = []
  /** The live overrides, then those of the document. */
  #overrides: Overrides

  constructor(settings: LimitSetSettings, parts: EnforcerParts) {
    const { tiers, limits, documented, now, context } = parts
    this.ipRule = compileIpLists(settings.ipLists)
    this.tiers = tiers
    this.priorities = compilePriorities(settings, tiers)
    this.#settings = settings
    this.#limits = limits
    this.#active = settings.enabled ? limits.limits.filter(({ isOff }) => !isOff) : []
    this.#documented = documented
    this.#now = now
    this.#context = context
    this.#live = new LiveRules(noEntries, indexOf(limits), now)
    this.#overrides = documented
  }

  use(entries: LiveEntries): void {
    const live = new LiveRules(entries, indexOf(this.#limits), this.#now)
    const hasOverrides = entries.overrides.length > 0
    this.#overrides = hasOverrides ? bothOverrides(live, this.#documented) : this.#documented
    this.#live = live
    this.#liveKeys = this.#active.map(({ name }) => live.keysOf(name))
  }

  rules(): RulesInForce {
    return { limits: this.#limits, overrides: this.#overrides, tiers: this.#settings.tiers }
  }

  addressBlock(ip: string | undefined): LiveBlock | undefined {
    return this.#live.addressBlock(ip)
  }

  evaluate(facts: RequestFacts, asked = asDeclared): MaybePromise<RequestOutcome> {
    const plan = this.plan(facts, asked)
    if (!(plan instanceof Promise)) return this.#evaluate(plan, asked)
    const { within } = asked
    if (within === undefined) return plan.then((found) => this.#evaluate(found, asked))
    return plan.then((found) => within(() => this.#evaluate(found, asked)))
  }

  plan(facts: RequestFacts, asked = asDeclared): MaybePromise<RequestPlan> {
    const live = this.#live
    if (live.hasBlocks) {
      const address = asked.isAddressChecked === true ? undefined : live.addressBlock(facts.ip)
      const blockedBy = address ?? live.identityBlock(facts)
      if (blockedBy !== undefined) return { blockedBy }
    }
    const state = asked.isExempt === true ? 'off' : live.state
    if (state === 'off' && !live.hasKeyBlocks) return noCharges
    const matched = this.#match(facts, asked.cost)
    if (matched.length === 0) return noCharges
    if (!matched.some(({ limit }) => limit.needsTier)) return this.#plan(facts, matched, '', state)
    const tier = this.tiers.tierOf(facts.identity)
    if (typeof tier === 'string') return this.#plan(facts, matched, tier, state)
    return tier.then((found) => this.#plan(facts, matched, found, state))
  }

  explain(facts: RequestFacts): MaybePromise<Explanation> {
    const about = (tier: string) =>
      explain(facts, {
        limits: this.#limits,
        isEnabled: this.#settings.enabled,
        ip: this.ipRule(facts.ip),
        tier: this.#settings.tiers === undefined ? undefined : tier,
        live: this.#live,
        documented: this.#documented,
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
      limits: this.#limits,
      isEnabled: this.#settings.enabled,
      tiers: this.#settings.tiers,
      overrides: this.#overrides,
      live: this.#live,
      context: this.#context,
    }
  }

  #evaluate(plan: RequestPlan, asked: RequestCheck): MaybePromise<RequestOutcome> {
    if (plan === noCharges) return unlimited
    if ('blockedBy' in plan) return blockedOutcome(plan.blockedBy)
    if ('missingKeyOf' in plan) return missingKeyOutcome(plan.missingKeyOf)
    return evaluate(plan, this.#context, asked.peek === true ? 'peek' : 'all')
  }

  #match(facts: RequestFacts, givenCost: number | undefined): readonly Matched[] {
    const matched: Matched[] = []
    if (this.#active.length === 0) return matched
    this.#limits.patterns.read(facts.path)
    for (let at = 0; at < this.#active.length; at++) {
      const limit = this.#active[at] as RequestLimit
      if (!limit.match.matches(facts)) continue
      const cost = givenCost ?? limit.fixedCost ?? limit.costOf(facts)
      matched.push({ limit, keys: this.#liveKeys[at], route: limit.match.route() ?? '', cost })
    }
    return matched
  }

  /** Charges nothing if the switch is off, and finds the blocks of keys nevertheless. */
  #plan(
    facts: RequestFacts,
    matched: readonly Matched[],
    tier: string,
    state: SwitchState,
  ): RequestPlan {
    const live = this.#live
    const enforced: PlannedCharge[] = []
    const shadows: PlannedCharge[] = []
    let missingKeyOf: string | undefined
    for (const { limit, keys, route, cost } of matched) {
      const { compiled, name } = limit
      const key = this.#keyOf(limit, facts, tier, route)
      if (key === undefined) {
        if (state === 'on' && refusesWithoutKey(limit, facts)) missingKeyOf ??= name
        continue
      }
      const found = keys?.get(key)
      const held = found && live.held(found)
      const blockedBy = held?.heldBlock
      if (blockedBy !== undefined && !live.areBlocksLifted) return { blockedBy }
      if (state === 'off' || !limit.includes(key)) continue
      const root = this.#limits.rootOf.get(limit)
      const outerKey = root === undefined ? undefined : readKey(root.key, facts, tier, '')
      const numbers = held?.numbers ?? compiled.limitFor(key, tier, this.#documented)
      const charge = compiled.chargeOf(key, cost, numbers, outerKey)
      if (compiled.isShadow) shadows.push(charge)
      else if (state === 'shadow') shadows.push({ ...charge, isShadow: true })
      else enforced.push(charge)
    }
    if (missingKeyOf !== undefined) return { missingKeyOf }
    return enforced.length === 0 && shadows.length === 0 ? noCharges : { enforced, shadows }
  }

  /** The key, or the first fallback that the request has. */
  #keyOf(limit: RequestLimit, facts: RequestFacts, tier: string, route: string) {
    const { alternatives, end } = limit.key
    const key = alternatives[0]?.read(facts, tier, route)
    if (key !== undefined) return key
    const other = readKey(limit.key, facts, tier, route)
    if (isForOthers(limit, facts)) return other
    const action = other === undefined ? end : 'fallback'
    this.#context.observer({ type: 'missing-key', limit: limit.name, action })
    return other
  }
}

/** A limit in shadow mode never refuses, not even for a missing key. */
function refusesWithoutKey(limit: RequestLimit, facts: RequestFacts): boolean {
  return limit.key.end === 'deny' && !limit.compiled.isShadow && !isForOthers(limit, facts)
}

/**
 * A descriptor carries the facts that Envoy was told to send, often for a single limit. Without the
 * key of a limit, it is not a request that hides its key, unless the limit is for descriptors.
 */
function isForOthers({ match }: RequestLimit, { descriptor }: RequestFacts): boolean {
  return descriptor !== undefined && !match.namesDescriptor
}
