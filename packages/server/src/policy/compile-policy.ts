/** The limits of a policy as they are asked, with what they have in common. */

import { CompiledLimit } from './compiled-limit.ts'
import type { PolicyDocument } from './policy-schema.ts'
import { PatternBook } from './request-match.ts'

/** What of a policy decides on requests; the rest of the document is for others. */
export type LimitingDocument = Pick<
  PolicyDocument,
  'enabled' | 'region' | 'ipLists' | 'tiers' | 'limits' | 'overrides'
> & { readonly gateway: Pick<PolicyDocument['gateway'], 'ipv6Prefix'> }

export interface CompiledPolicy {
  /** In the order of the policy. */
  readonly limits: readonly CompiledLimit[]
  readonly byName: ReadonlyMap<string, CompiledLimit>
  readonly book: PatternBook
  /** The limit whose key the counters of another lie within, for it and for all that do. */
  readonly rootOf: ReadonlyMap<CompiledLimit, CompiledLimit>
}

export function compilePolicy(document: LimitingDocument): CompiledPolicy {
  const book = new PatternBook()
  const settings = { region: document.region, ipv6Prefix: document.gateway.ipv6Prefix }
  const limits = document.limits.map(
    (section) => new CompiledLimit(section, document.overrides, book, settings),
  )
  const byName = new Map(limits.map((limit) => [limit.name, limit]))
  const rootOf = new Map<CompiledLimit, CompiledLimit>()
  for (const limit of limits) {
    const root = outermost(limit, byName)
    if (root === limit) continue
    rootOf.set(limit, root)
    rootOf.set(root, root)
  }
  return { limits, byName, book, rootOf }
}

/** Ends, because a policy in which limits lead back to themselves is refused. */
function outermost(limit: CompiledLimit, byName: ReadonlyMap<string, CompiledLimit>) {
  let root = limit
  for (let next = outer(root, byName); next !== undefined; next = outer(root, byName)) root = next
  return root
}

function outer({ section }: CompiledLimit, byName: ReadonlyMap<string, CompiledLimit>) {
  return section.within === undefined ? undefined : byName.get(section.within)
}
