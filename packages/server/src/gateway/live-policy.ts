/** What the gateway needs of a policy: somebody to ask. Each request asks the one that is live. */

import type { RequestFacts } from '../policy/request-facts.ts'
import type { RequestPriorities } from '../policy/request-priorities.ts'
import type { Verdict } from '../policy/verdict.ts'
import type { MaybePromise } from './message.ts'

export interface LivePolicy {
  enforcer(): Enforcer
}

export interface Enforcer {
  readonly priorities: RequestPriorities
  judge(facts: RequestFacts): MaybePromise<Verdict>
  /** Whether an address is on a list: `deny` refuses it, `allow` exempts it from limits. */
  ipVerdict(ip: string | undefined): 'deny' | 'allow' | undefined
}
