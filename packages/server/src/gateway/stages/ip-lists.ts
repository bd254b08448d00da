/** Refuses addresses on the deny list before anything else, and exempts those on the allow list. */

import type { LivePolicy } from '../live-policy.ts'
import type { Stage } from '../message.ts'
import { refusal } from '../refusal.ts'

export function ipLists(policy: LivePolicy): Stage {
  return (request, next) => {
    const verdict = policy.enforcer().ipVerdict(request.ip)
    if (verdict === 'deny') return refusal(403, 'This address is not admitted.')
    request.isExempt = verdict === 'allow'
    return next(request)
  }
}
