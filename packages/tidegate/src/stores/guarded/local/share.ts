/**
 * A limit's share for one of several processes: a part of its capacity and of its rate. The shares
 * of all processes together are at most the limit. If the limit is smaller than the number of
 * processes, each of them still has a share of 1.
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

/** If a whole unit is more than the share, it is refilled less often. */
function stretch({ limit }: Limit, nodes: number): number {
  return limit >= nodes ? 1 : Math.ceil(nodes / limit)
}
