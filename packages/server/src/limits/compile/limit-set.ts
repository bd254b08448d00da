/** The limits of one document, compiled, with everything that they share. */

import type { LimitSetSettings } from '../limit-settings.ts'
import { PatternSet } from '../match/request-match.ts'
import { RequestLimit } from './request-limit.ts'

export interface LimitSet {
  /** In the order of the document. */
  readonly limits: readonly RequestLimit[]
  readonly byName: ReadonlyMap<string, RequestLimit>
  readonly patterns: PatternSet
  /** The limit whose key the counters of another lie within; such a limit is its own root. */
  readonly rootOf: ReadonlyMap<RequestLimit, RequestLimit>
}

export function compileLimits(settings: LimitSetSettings): LimitSet {
  const patterns = new PatternSet()
  const context = { region: settings.region, ipv6Prefix: settings.gateway.ipv6Prefix }
  const limits = settings.limits.map((limit) => new RequestLimit(limit, patterns, context))
  const byName = new Map(limits.map((limit) => [limit.name, limit]))
  const rootOf = new Map<RequestLimit, RequestLimit>()
  for (const limit of limits) {
    const root = outermost(limit, byName)
    if (root === limit) continue
    rootOf.set(limit, root)
    rootOf.set(root, root)
  }
  return { limits, byName, patterns, rootOf }
}

/** Terminates, because front ends reject limits that lie within themselves. */
function outermost(limit: RequestLimit, byName: ReadonlyMap<string, RequestLimit>) {
  let root = limit
  for (let next = outer(root, byName); next !== undefined; next = outer(root, byName)) root = next
  return root
}

function outer({ settings }: RequestLimit, byName: ReadonlyMap<string, RequestLimit>) {
  return settings.within === undefined ? undefined : byName.get(settings.within)
}
