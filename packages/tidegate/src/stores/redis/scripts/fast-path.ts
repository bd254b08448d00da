/**
 * The fast path: scripts for plain charges of single counters, their arguments and their replies.
 * Each serves one algorithm. Charges that it leaves go to charge.lua.
 */

import { type FixedWindowParams, fixedWindow, windowAt } from '../../../algorithms/fixed-window.ts'
import type { Limit } from '../../../algorithms/limit.ts'
import { type SlidingWindowParams, slidingWindow } from '../../../algorithms/sliding-window.ts'
import { bucketDecision, type TokenBucketParams } from '../../../algorithms/token-bucket.ts'
import type { Decision } from '../../../decision.ts'
import { NOT_DONE, SERVER_TIME } from './script-arguments.ts'
import {
  chargeFixedWindowScript,
  chargeSlidingWindowScript,
  chargeTokenBucketScript,
  type RedisScript,
} from './scripts.generated.ts'

/** The fast path of one limit. */
export interface FastPath {
  readonly script: RedisScript
  /** True if its replies begin with the server's time. */
  readonly hasTime: boolean
  /** The parameters of the limit, as the script takes them. */
  readonly params: readonly string[]
  /** The decision about one of `count` counters; undefined if nothing was done. */
  decide(reply: unknown, at: number, count: number, cost: number): Decision | undefined
}

const fastPaths = new WeakMap<Limit, FastPath>()

/** The limit of the last command, which most programs use again, and its path. */
let lastLimit: Limit | undefined
let lastPath: FastPath | undefined

/** Windows of calendars have none: the server does not know when they begin. */
export function hasFastPath(limit: Limit): boolean {
  const { algorithm } = limit
  if (algorithm === 'tokenBucket' || algorithm === 'slidingWindow') return true
  return algorithm === 'fixedWindow' && typeof limit.per === 'number'
}

/** The fast path of a limit that has one. It is made once. */
export function fastPathOf(limit: Limit): FastPath {
  if (limit === lastLimit && lastPath !== undefined) return lastPath
  const known = fastPaths.get(limit)
  const path = known ?? newFastPath(limit)
  if (known === undefined) fastPaths.set(limit, path)
  lastLimit = limit
  lastPath = path
  return path
}

/** The arguments of the script; the cost only if it is not 1, the time only in tests. */
export function fastPathArgs(
  { params }: FastPath,
  cost: number,
  timeArg: string,
): readonly string[] {
  if (timeArg !== SERVER_TIME) return [...params, String(cost), timeArg]
  return cost === 1 ? params : [...params, String(cost)]
}

function newFastPath(limit: Limit): FastPath {
  switch (limit.algorithm) {
    case 'fixedWindow':
      return fixedWindowPath(limit)
    case 'slidingWindow':
      return slidingWindowPath(limit)
    default:
      return tokenBucketPath(limit as TokenBucketParams)
  }
}

/** The reply of charge-token-bucket.lua for one counter. */
type BucketReply = number | readonly number[]

function tokenBucketPath(limit: TokenBucketParams): FastPath {
  return {
    script: chargeTokenBucketScript,
    hasTime: false,
    params: [String(limit.burst), String(limit.unitsPerToken), String(limit.unitsPerMs)],
    decide(reply, at, count, cost) {
      const level = (count === 1 ? reply : (reply as readonly BucketReply[])[at]) as BucketReply
      if (typeof level === 'object') return withLeases(level, limit, cost)
      if (level === NOT_DONE) return undefined
      return level >= 0
        ? bucketDecision(true, level, cost, limit, 0)
        : bucketDecision(false, -2 - level, cost, limit, 0)
    },
  }
}

function withLeases(
  [level = 0, held = 0, lastMs = 0]: readonly number[],
  limit: TokenBucketParams,
  cost: number,
): Decision {
  const decision = bucketDecision(true, level, cost, limit, held)
  return { ...decision, resetAfterMs: Math.max(decision.resetAfterMs, lastMs) }
}

/** The script replies with the count before, from which the algorithm makes the decision. */
function fixedWindowPath(limit: FixedWindowParams): FastPath {
  return {
    script: chargeFixedWindowScript,
    hasTime: true,
    params: [String(limit.limit), String(limit.per)],
    decide(reply, at, _count, cost) {
      const integers = reply as readonly number[]
      const [now = 0, count = 0] = [integers[0], integers[at + 1]]
      if (count === NOT_DONE) return undefined
      const state = { count, start: windowAt(now, limit).startMs }
      return fixedWindow.charge(state, cost, now, limit, 0).decision
    },
  }
}

function slidingWindowPath(limit: SlidingWindowParams): FastPath {
  return {
    script: chargeSlidingWindowScript,
    hasTime: true,
    params: [String(limit.limit), String(limit.perMs)],
    decide(reply, at, _count, cost) {
      const integers = reply as readonly number[]
      const now = integers[0] as number
      const [previous, current] = [integers[2 * at + 1] as number, integers[2 * at + 2] as number]
      if (previous === NOT_DONE) return undefined
      const state = { previous, current, start: now - (now % limit.perMs) }
      return slidingWindow.charge(state, cost, now, limit, 0).decision
    },
  }
}
