/** The policy in force, which each request asks for. */

import type { Enforcer } from '../limits/enforcer.ts'

export interface LivePolicy {
  /** True if the counters are in a store outside of this process; spans show it. */
  readonly isShared?: boolean
  enforcer(): Pick<Enforcer, 'addressBlock' | 'evaluate' | 'ipRule' | 'priorities'>
}
