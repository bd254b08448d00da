/**
 * Refuses blocked addresses and those on the deny list before anything else, and exempts those on
 * the allow list.
 */

import { createContextKey } from '../context.ts'
import type { LivePolicy } from '../live-policy.ts'
import type { Stage } from '../pipeline.ts'
import { refusal } from '../refusal.ts'
import { blockedResponse } from './blocked-response.ts'

/** True for a client on the allow list: no limit applies. */
export const isExempt = createContextKey(false)

export function ipLists(policy: LivePolicy): Stage {
  return (request, next) => {
    const enforcer = policy.enforcer()
    const block = enforcer.addressBlock(request.ip)
    if (block !== undefined) return blockedResponse(block)
    const verdict = enforcer.ipRule(request.ip)
    if (verdict === 'deny') return refusal(403, 'This address is not admitted.')
    if (verdict === 'allow') request.context.set(isExempt, true)
    return next(request)
  }
}
