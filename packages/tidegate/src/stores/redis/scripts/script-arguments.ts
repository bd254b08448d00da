/**
 * Writes the arguments of charge.lua and adjust.lua, and reads their replies. The headers of those
 * scripts define the order.
 */

import { algorithmNames } from '../../../algorithms/algorithm.ts'
import { calendarWindow } from '../../../algorithms/calendar.ts'
import { capacityOf, type Limit } from '../../../algorithms/limit.ts'
import type { TokenBucketParams } from '../../../algorithms/token-bucket.ts'
import type { Decision } from '../../../decision.ts'
import type { Charge, ChargeMode } from '../../store.ts'
import type { RedisScript } from './scripts.generated.ts'

/** One command: the script, the keys that it touches, and its arguments. */
export interface ScriptCall {
  readonly script: RedisScript
  readonly keys: string[]
  readonly args: readonly string[]
}

const modes: Record<ChargeMode, string> = { all: '0', partial: '1', peek: '2' }

/** As `partial`, for a single charge that settles a hold first. */
export const LEASE_MODE = '3'

export function modeArg(mode: ChargeMode): string {
  return modes[mode]
}

/** Collects the limits of a call, each once, and numbers them. */
export class LimitArgs {
  readonly #numbers = new Map<Limit, string>()

  numberOf(limit: Limit): string {
    const known = this.#numbers.get(limit)
    if (known !== undefined) return known
    const number = String(this.#numbers.size + 1)
    this.#numbers.set(limit, number)
    return number
  }

  /** `now` is this process's guess of the server's time, for the windows of calendars. */
  write(now: number): string[] {
    const args = [String(this.#numbers.size)]
    for (const limit of this.#numbers.keys()) args.push(...limitArgs(limit, now))
    return args
  }
}

/** Stands for the server's own time. */
export const SERVER_TIME = '-1'

/** The arguments of lease-token-bucket.lua, for charges of one limit. */
export function leaseArgs(
  limit: TokenBucketParams,
  charges: readonly Charge[],
  timeArg: string,
): string[] {
  const { burst, unitsPerToken, unitsPerMs } = limit
  const args = [timeArg, String(burst), String(unitsPerToken), String(unitsPerMs)]
  for (const { cost, hold, settles } of charges) {
    args.push(String(cost), String(hold?.ttlMs), hold?.id ?? '')
    args.push(settles?.release ?? '', String(settles?.units ?? 0))
  }
  return args
}

/** The number of the algorithm, how many parameters follow, and these. */
function limitArgs(limit: Limit, now: number): string[] {
  const params = paramsOf(limit, now)
  const number = algorithmNames.indexOf(limit.algorithm) + 1
  return [String(number), String(params.length), ...params.map(String)]
}

function paramsOf(limit: Limit, now: number): number[] {
  switch (limit.algorithm) {
    case 'tokenBucket':
      return [limit.burst, limit.unitsPerToken, limit.unitsPerMs]
    case 'slidingWindow':
    case 'slidingLog':
      return [limit.limit, limit.perMs]
    case 'fixedWindow':
      if (typeof limit.per === 'number') return [limit.limit, limit.per]
      return [limit.limit, 0, ...windowStarts(limit.per, now)]
    case 'concurrency':
      return [limit.limit]
  }
}

/** The server has no time zones. It chooses from the current window and its neighbours. */
function windowStarts(calendar: Parameters<typeof calendarWindow>[1], now: number): number[] {
  const current = calendarWindow(now, calendar)
  const previous = calendarWindow(current.startMs - 1, calendar)
  const next = calendarWindow(current.endMs, calendar)
  return [previous.startMs, current.startMs, next.startMs, next.endMs]
}

/** Integers per counter, behind the time. */
const REPLY_STEP = 4

/** In a reply of a fast path: nothing was done, this charge is for charge.lua. */
export const NOT_DONE = -1

/** The integers of a reply for one counter; -1 stands for denied, and for never. */
export function readReply(reply: unknown, at: number) {
  const integers = reply as readonly number[]
  const from = 1 + at * REPLY_STEP
  return {
    granted: integers[from] as number,
    remaining: integers[from + 1] as number,
    retry: integers[from + 2] as number,
    reset: integers[from + 3] as number,
  }
}

/** The decision on one counter, from a reply of charge.lua or adjust.lua. */
export function decisionAt(reply: unknown, at: number, limit: Limit): Decision {
  const { granted, remaining, retry, reset } = readReply(reply, at)
  const allowed = granted >= 0
  return {
    allowed,
    limit: capacityOf(limit),
    remaining,
    retryAfterMs: allowed ? 0 : duration(retry),
    resetAfterMs: duration(reset),
    granted: allowed ? granted : 0,
    degraded: null,
    source: 'store',
  }
}

const LEASE_REPLY_STEP = 3

/** The decision on a lease, from a reply of lease-token-bucket.lua; undefined for charge.lua. */
export function leaseDecisionAt(reply: unknown, at: number, limit: Limit): Decision | undefined {
  const from = 1 + at * LEASE_REPLY_STEP
  const [granted = 0, remaining, reset] = (reply as readonly number[]).slice(from, from + 3)
  if (granted === NOT_DONE) return undefined
  return decisionAt([0, granted, remaining, 0, reset], 0, limit)
}

/** Marks a decision whose charge no replica has confirmed. A denial has charged nothing. */
export function unconfirmed(decision: Decision): Decision {
  if (!decision.allowed) return decision
  return { ...decision, degraded: { reason: 'unconfirmed', mode: 'open' } }
}

function duration(ms: number): number {
  return ms < 0 ? Infinity : ms
}
