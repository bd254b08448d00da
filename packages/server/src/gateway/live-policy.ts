/** The policy in force, which each request asks for. */

import type { Enforcer } from '../limits/enforcer.ts'

export interface LivePolicy {
  enforcer(): Pick<Enforcer, 'addressBlock' | 'evaluate' | 'ipRule' | 'priorities'>
}
