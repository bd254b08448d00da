/**
 * The fast path of groups: the arguments and replies of charge-token-bucket-groups.lua, for groups
 * of token buckets. Groups that it leaves go to charge.lua.
 */

import { bucketDecision, type TokenBucketParams } from '../../../algorithms/token-bucket.ts'
import type { Decision } from '../../../decision.ts'
import type { Charge } from '../../store.ts'
import { NOT_DONE } from './script-arguments.ts'

/** The script reads a counter once for each charge, so the counters of a group must differ. */
export function isBucketGroup(keys: readonly string[], group: readonly Charge[]): boolean {
  return group.every(({ limit, cost, hold, settles }, at) => {
    const isPlain = hold === undefined && settles === undefined && cost > 0
    return isPlain && limit.algorithm === 'tokenBucket' && keys.indexOf(keys[at] as string) === at
  })
}

export function bucketGroupArgs(group: readonly Charge[], timeArg: string): string[] {
  const args = [timeArg]
  for (const { limit, cost } of group) {
    const { burst, unitsPerToken, unitsPerMs } = limit as TokenBucketParams
    args.push(String(burst), String(unitsPerToken), String(unitsPerMs), String(cost))
  }
  return args
}

/** The decisions about the group of this number; undefined if nothing was done. */
export function bucketGroupDecisions(
  reply: unknown,
  at: number,
  group: readonly Charge[],
): Decision[] | undefined {
  const from = at * group.length
  const levels = (reply as readonly number[]).slice(from, from + group.length)
  if (levels[0] === NOT_DONE) return undefined
  const isDenied = levels.some((level) => level < 0)
  return group.map(({ limit, cost }, index) => {
    const [level, params] = [levels[index] as number, limit as TokenBucketParams]
    if (level < 0) return bucketDecision(false, -2 - level, cost, params, 0)
    return bucketDecision(true, level, isDenied ? 0 : cost, params, 0)
  })
}
