/**
 * The scripts made for plain charges of single counters: how they are called, and what their
 * replies mean. Each is the short way of one algorithm. What it leaves is for charge.lua.
 */

import { type FixedWindowParams, fixedWindow, windowAt } from '../../algorithms/fixed-window.ts'
import type { Limit } from '../../algorithms/limit.ts'
import { type SlidingWindowParams, slidingWindow } from '../../algorithms/sliding-window.ts'
import { bucketDecision, type TokenBucketParams } from '../../algorithms/token-bucket.ts'
import type { Decision } from '../../decision.ts'
import { NOT_DONE, SERVER_TIME } from './script-call.ts'
import {
  chargeFixedWindowScript,
  chargeSlidingWindowScript,
  chargeTokenBucketScript,
  type RedisScript,
} from './scripts.generated.ts'

/** Of one limit. */
export interface ShortWay {
  readonly script: RedisScript
  /** Whether its replies begin with the server's time. */
  readonly tellsTime: boolean
  /** Of the limit, as the script takes them. */
  readonly params: readonly string[]
  /** The decision on one of so many counters; undefined where nothing was done. */
  decide(reply: unknown, at: number, count: number, cost: number): Decision | undefined
}

const ways = new WeakMap<Limit, ShortWay>()

/** Windows of calendars have none: the server cannot tell when they begin. */
export function hasShortWay(limit: Limit): boolean {
  const { algorithm } = limit
  if (algorithm === 'tokenBucket' || algorithm === 'slidingWindow') return true
  return algorithm === 'fixedWindow' && typeof limit.per === 'number'
}

/** Only for a limit that has one. It is made once. */
export function shortWayOf(limit: Limit): ShortWay {
  const known = ways.get(limit)
  if (known !== undefined) return known
  const way = newShortWay(limit)
  ways.set(limit, way)
  return way
}

/** What the script takes: the cost and the time only where they are not what is usual. */
export function shortArgs({ params }: ShortWay, cost: number, timeArg: string): readonly string[] {
  if (timeArg !== SERVER_TIME) return [...params, String(cost), timeArg]
  return cost === 1 ? params : [...params, String(cost)]
}

function newShortWay(limit: Limit): ShortWay {
  switch (limit.algorithm) {
    case 'fixedWindow':
      return fixedWindowWay(limit)
    case 'slidingWindow':
      return slidingWindowWay(limit)
    default:
      return bucketWay(limit as TokenBucketParams)
  }
}

/** What charge-token-bucket.lua replies for one counter. */
type BucketReply = number | readonly number[]

function bucketWay(limit: TokenBucketParams): ShortWay {
  return {
    script: chargeTokenBucketScript,
    tellsTime: false,
    params: [String(limit.burst), String(limit.unitsPerToken), String(limit.unitsPerMs)],
    decide(reply, at, count, cost) {
      const level = (count === 1 ? reply : (reply as readonly BucketReply[])[at]) as BucketReply
      if (typeof level === 'object') return besideLeases(level, limit, cost)
      if (level === NOT_DONE) return undefined
      return level >= 0
        ? bucketDecision(true, level, cost, limit, 0)
        : bucketDecision(false, -2 - level, cost, limit, 0)
    },
  }
}

function besideLeases(
  [level = 0, held = 0, lastMs = 0]: readonly number[],
  limit: TokenBucketParams,
  cost: number,
): Decision {
  const decision = bucketDecision(true, level, cost, limit, held)
  return { ...decision, resetAfterMs: Math.max(decision.resetAfterMs, lastMs) }
}

/** The script tells what was there before, and the algorithm itself what follows from it. */
function fixedWindowWay(limit: FixedWindowParams): ShortWay {
  return {
    script: chargeFixedWindowScript,
    tellsTime: true,
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

function slidingWindowWay(limit: SlidingWindowParams): ShortWay {
  return {
    script: chargeSlidingWindowScript,
    tellsTime: true,
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
