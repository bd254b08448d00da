/**
 * A limit's share for one of several processes: a part of what can be had at once, and of what
 * comes back over time. The shares of all processes together are at most the limit, but for limits
 * smaller than the number of processes, where each still has 1.
 */

import type { Limit } from '../../../algorithms/limit.ts'
import { tokenBucketParams } from '../../../algorithms/token-bucket.ts'

export function shareOf(limit: Limit, nodes: number): Limit {
  if (nodes === 1 || limit.limit === 0) return limit
  switch (limit.algorithm) {
    case 'tokenBucket':
      // The rate is exact: the same units over as many times the period.
      return tokenBucketParams(limit.limit, limit.perMs * nodes, part(limit.burst, nodes))
    case 'slidingWindow':
    case 'slidingLog':
      return {
        ...limit,
        limit: part(limit.limit, nodes),
        perMs: limit.perMs * stretch(limit, nodes),
      }
    case 'fixedWindow':
      if (typeof limit.per !== 'number') return { ...limit, limit: part(limit.limit, nodes) }
      return { ...limit, limit: part(limit.limit, nodes), per: limit.per * stretch(limit, nodes) }
    case 'concurrency':
      return { ...limit, limit: part(limit.limit, nodes) }
  }
}

function part(units: number, nodes: number): number {
  return Math.max(1, Math.floor(units / nodes))
}

/** Where a whole unit would be more than the share, it comes less often. */
function stretch({ limit }: Limit, nodes: number): number {
  return limit >= nodes ? 1 : Math.ceil(nodes / limit)
}
