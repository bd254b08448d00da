/**
 * Plans requests by the limits of a policy. Every limit that matches a descriptor applies to it, as
 * it would apply to a request with the same facts in the gateway, on the same counters. A counter
 * is charged once per call, also if several descriptors lead to it: a call is one request.
 *
 * Concurrency limits do not apply: Envoy does not report the end of a request.
 */

import type { Limit, MaybePromise } from 'tidegate'
import type { ChargeUse, PlannedCharge } from '../../limits/charging/charge-plan.ts'
import type { Enforcer, RequestCheck, RequestPlan } from '../../limits/enforcer.ts'
import { unitOfLimit, windowMsOf } from '../config/units.ts'
import type { Descriptor, RateLimitRequest } from '../wire/rate-limit-messages.ts'
import { descriptorFacts } from './descriptor-facts.ts'
import {
  checkRequest,
  type PlanItem,
  type RlsPlan,
  type RlsPlanner,
  type ShownLimit,
} from './rls-plan.ts'
import type { Stats } from './stats.ts'

/** The domain of a policy's limits in metrics. */
const METRICS_DOMAIN = 'policy'

/** An address on the allow list is not limited; its user can be blocked. */
const exempt: RequestCheck = { isAddressChecked: true, isExempt: true }

export class PolicyPlanner implements RlsPlanner {
  readonly #enforcer: () => Enforcer
  readonly #stats: Stats
  /** A limit belongs to one name. */
  readonly #shown = new WeakMap<Limit, ShownLimit>()

  /** `enforcer` returns the one of the policy in force. */
  constructor(enforcer: () => Enforcer, stats: Stats) {
    this.#enforcer = enforcer
    this.#stats = stats
  }

  plan(request: RateLimitRequest): MaybePromise<RlsPlan> {
    checkRequest(request)
    const plans = request.descriptors.map((descriptor) => this.#planOne(descriptor, request))
    if (!plans.some((plan) => plan instanceof Promise)) {
      return this.#assemble(request, plans as readonly (RequestPlan | 'refused')[])
    }
    return Promise.all(plans).then((planned) => this.#assemble(request, planned))
  }

  #planOne(
    { entries, hitsAddend }: Descriptor,
    request: RateLimitRequest,
  ): MaybePromise<RequestPlan | 'refused'> {
    const enforcer = this.#enforcer()
    const facts = descriptorFacts(request.domain, entries)
    if (enforcer.addressBlock(facts.ip) !== undefined) return 'refused'
    const listed = enforcer.ipRule(facts.ip)
    if (listed === 'deny') return 'refused'
    if (listed === 'allow') return enforcer.plan(facts, exempt)
    const given = hitsAddend ?? (request.hitsAddend === 0 ? undefined : request.hitsAddend)
    return enforcer.plan(facts, { cost: given, isAddressChecked: true })
  }

  #assemble(request: RateLimitRequest, plans: readonly (RequestPlan | 'refused')[]): RlsPlan {
    const charges: PlannedCharge[] = []
    const uses: ChargeUse<ShownLimit>[] = []
    const places = new Map<string, number>()
    const items = plans.map((plan, at): PlanItem => {
      const isRefused = plan === 'refused' || !('enforced' in plan)
      if (isRefused) return { uses: [], isRefused, metadata: undefined }
      const isNegative = request.descriptors[at]?.isNegativeHits === true
      const own = [...plan.enforced, ...plan.shadows]
        .filter(({ hold }) => hold === undefined)
        .map((charge) => this.#add({ ...charge, isNegative }, charges, uses, places))
      return { uses: own, isRefused, metadata: undefined }
    })
    return { request, items, charges, uses, isDomainKnown: true, isLasting: false }
  }

  /** Returns the index of the use. There is one use for each charge. */
  #add(
    charge: PlannedCharge,
    charges: PlannedCharge[],
    uses: ChargeUse<ShownLimit>[],
    places: Map<string, number>,
  ): number {
    const { isNegative, name, key, limit, cost } = charge
    const place = `${isNegative ? '-' : '+'}${name}\0${key}`
    const known = places.get(place)
    const at = known ?? charges.length
    if (known !== undefined && cost <= (charges[known]?.cost ?? 0)) return known
    charges[at] = charge
    uses[at] = { subject: this.#shownOf(name, limit), chargeAt: at, units: cost }
    places.set(place, at)
    return at
  }

  #shownOf(name: string, limit: Limit): ShownLimit {
    const known = this.#shown.get(limit)
    if (known !== undefined) return known
    const shown = {
      stats: this.#stats.of(METRICS_DOMAIN, [name]),
      currentLimit: { requestsPerUnit: limit.limit, unit: unitOfLimit(limit).code, name },
      windowMs: windowMsOf(limit),
      failsCall: false,
    }
    this.#shown.set(limit, shown)
    return shown
  }
}
