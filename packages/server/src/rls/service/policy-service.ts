/** The rate limit service with the limits of a policy instead of Envoy's YAML. */

import { ChargeGroups } from '../../limits/charging/charge-group.ts'
import type { StoreRouter } from '../../limits/charging/store-router.ts'
import type { Enforcer } from '../../limits/enforcer.ts'
import { PolicyPlanner } from './policy-planner.ts'
import { RateLimitService, type ServiceParts } from './rate-limit-service.ts'

export interface PolicyServiceOptions extends Omit<ServiceParts, 'groups'> {
  /** Returns the enforcer of the policy in force; every call asks for it again. */
  readonly enforcer: () => Enforcer
  /** The stores of that enforcer: `oneStore(store)`. */
  readonly stores: StoreRouter
}

export function createPolicyRateLimitService(options: PolicyServiceOptions): RateLimitService {
  const { enforcer, stores, ...parts } = options
  const service = new RateLimitService({ ...parts, groups: new ChargeGroups(stores) })
  service.use(new PolicyPlanner(enforcer, parts.stats))
  return service
}
