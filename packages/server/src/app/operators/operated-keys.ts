/** The idempotency keys of a policy, as operators look them up and forget them. */

import { createIdempotency, type IdempotencyStore } from 'tidegate/idempotency'
import type { OperatedKeys } from '../../admin/route.ts'
import { planKey } from '../../limits/key-plan.ts'
import type { PolicyDocument } from '../../policy/schema/policy-schema.ts'

/** Undefined if the policy has no keys. */
export function operatedKeys(
  { idempotency: section, gateway }: PolicyDocument,
  openStore: () => IdempotencyStore,
): OperatedKeys | undefined {
  if (section === undefined) return undefined
  const plan = planKey(
    { key: section.scope, otherwise: section.otherwise },
    { region: undefined, ipv6Prefix: gateway.ipv6Prefix },
  )
  const { look, forget } = boundTo(openStore())
  return {
    look,
    forget,
    senderOf(parts, isOtherwise) {
      const alternative = plan.alternatives[isOtherwise ? 1 : 0]
      if (alternative === undefined) {
        return { ok: false, problem: 'otherwise: the policy has no other sender' }
      }
      if (parts.length === alternative.parts) {
        return { ok: true, text: alternative.fromParts(parts) }
      }
      const allowed = `${alternative.parts}, for ${alternative.label}`
      return { ok: false, problem: `sender: got ${parts.length} parts, allowed: ${allowed}` }
    },
  }
}

function boundTo(store: IdempotencyStore): Pick<OperatedKeys, 'look' | 'forget'> {
  const core = createIdempotency({ store })
  return {
    look: (sender, key) => core.look(sender, key),
    forget: (sender, key) => core.forget(sender, key),
  }
}
