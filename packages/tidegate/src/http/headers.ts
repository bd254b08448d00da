/**
 * The rate limit header fields of a response, in the two dialects that clients read: `RateLimit`
 * and `RateLimit-Policy` of the IETF draft, and the older `X-RateLimit-*`.
 *
 * Seconds are rounded up, so that a client which waits for the whole retry time is admitted. Guards
 * may be stacked: a field that another guard has set is extended, or kept if it is stricter.
 *
 * Names are written in lower case, as HTTP/2 demands: node:http then makes no other text of them,
 * which saves it a fifth of the time that it takes for a field.
 * https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */

import type { CalendarUnit } from '../algorithms/calendar.ts'
import type { Limit } from '../algorithms/limit.ts'
import type { Decision } from '../decision.ts'
import type { AppliedLimit, Evaluation } from '../limiter/limiter.ts'

export const headerDialects = ['ietf', 'x-ratelimit', 'both', 'none'] as const

export type HeaderDialect = (typeof headerDialects)[number]

/**
 * The header fields of a response that is not sent yet; a `ServerResponse` is one. It is called
 * with names in lower case.
 */
export interface ResponseHead {
  getHeader(name: string): number | string | readonly string[] | undefined
  setHeader(name: string, value: string): unknown
}

/** The largest Integer in a header: https://www.rfc-editor.org/rfc/rfc9651#section-3.3.1 */
const INTEGER_MAX = 999_999_999_999_999

/**
 * Windows end on whole multiples of their length by the store's clock, calendar windows on whole
 * minutes. The moment that a header is written is later than the decision, and the clock of this
 * process differs from the store's. Differences up to this are taken out.
 */
const RESET_DIFFERENCE_MS_MAX = 5_000

const MINUTE_MS = 60_000

/**
 * Limits in a header. Each takes some 60 bytes in two headers, and clients such as Node.js refuse a
 * response with more than 16 KB of them.
 */
const LISTED_MAX = 16

/** Months have no fixed length. */
const calendarSeconds: Record<CalendarUnit, number | undefined> = {
  day: 86_400,
  week: 604_800,
  month: undefined,
}

export function writeHeaders(
  head: ResponseHead,
  { decision, applied }: Evaluation<Decision>,
  dialect: HeaderDialect,
  now: number,
): void {
  if (!decision.allowed) writeDenial(head, decision)
  // While limiting is turned off, there is no limit to report.
  if (dialect === 'none' || decision.degraded?.reason === 'disabled') return
  if (dialect !== 'ietf') writeXRateLimit(head, decision, resetAtMs(decision, applied, now))
  if (dialect !== 'x-ratelimit') {
    const listed = applied.length > LISTED_MAX ? tightest(applied) : applied
    append(head, 'ratelimit-policy', rateLimitPolicy(listed))
    append(head, 'ratelimit', rateLimit(listed))
  }
  if (decision.degraded !== null) {
    head.setHeader('x-ratelimit-status', 'degraded')
    if (decision.degraded.reason === 'unconfirmed') return
    head.setHeader('x-ratelimit-warning', 'rate-limiter-unavailable')
  }
}

/** The limits that denied, and then those with the smallest share left, in their own order. */
function tightest(applied: readonly AppliedLimit[]): readonly AppliedLimit[] {
  const share = ({ decision }: AppliedLimit) =>
    decision.allowed ? decision.remaining / decision.limit : -1
  const chosen = new Set(applied.toSorted((a, b) => share(a) - share(b)).slice(0, LISTED_MAX))
  return applied.filter((one) => chosen.has(one))
}

/** Such as `"burst";q=20;w=2, "daily";q=1000;w=86400`. */
export function rateLimitPolicy(applied: readonly AppliedLimit[]): string {
  let list = ''
  for (const { name, limit, decision } of applied) {
    const item = policyItem(name, limit, decision.limit)
    list = list === '' ? item : `${list}, ${item}`
  }
  return list
}

/** The last one of each limit: it changes with the rule only. */
const policyItems = new WeakMap<Limit, { name: string; units: number; text: string }>()

function policyItem(name: string, limit: Limit, units: number): string {
  const known = policyItems.get(limit)
  if (known !== undefined && known.name === name && known.units === units) return known.text
  const text = `"${name}";q=${integer(units)}${parameter('w', windowSeconds(limit))}`
  policyItems.set(limit, { name, units, text })
  return text
}

/** Such as `"burst";r=5;t=2, "daily";r=980;t=40231`. */
export function rateLimit(applied: readonly AppliedLimit[]): string {
  let list = ''
  for (const { name, decision } of applied) {
    const waitMs = decision.allowed ? decision.resetAfterMs : decision.retryAfterMs
    const item = `"${name}";r=${integer(decision.remaining)}${parameter('t', wholeSeconds(waitMs))}`
    list = list === '' ? item : `${list}, ${item}`
  }
  return list
}

/** At least 1, because clients retry immediately after 0; undefined if no wait ever admits. */
export function retryAfterSeconds(decision: Decision): number | undefined {
  const seconds = wholeSeconds(decision.retryAfterMs)
  return seconds === undefined ? undefined : Math.max(1, seconds)
}

/** The time in which the whole limit is refilled, if that is a whole number of seconds. */
export function windowSeconds(limit: Limit): number | undefined {
  const seconds = windowMs(limit) / 1000
  return Number.isInteger(seconds) && seconds >= 1 ? seconds : undefined
}

function windowMs(limit: Limit): number {
  switch (limit.algorithm) {
    case 'tokenBucket':
      return (limit.burst * limit.perMs) / limit.limit
    case 'slidingWindow':
    case 'slidingLog':
      return limit.perMs
    case 'fixedWindow':
      if (typeof limit.per === 'number') return limit.per
      return (calendarSeconds[limit.per.unit] ?? Number.NaN) * 1000
    case 'concurrency':
      return Number.NaN
  }
}

function writeDenial(head: ResponseHead, decision: Decision): void {
  const seconds = retryAfterSeconds(decision)
  if (seconds !== undefined) head.setHeader('retry-after', String(seconds))
  // A denial is about one client: https://www.rfc-editor.org/rfc/rfc6585#section-4
  head.setHeader('cache-control', 'no-store')
}

/** When nothing is used any more. All responses of one window name the same moment. */
function resetAtMs(decision: Decision, applied: readonly AppliedLimit[], now: number): number {
  const { resetAfterMs, degraded } = decision
  const exactMs = now + resetAfterMs
  const isCounted =
    degraded === null || degraded.reason === 'unconfirmed' || degraded.mode === 'local'
  if (resetAfterMs === 0 || !isCounted) return exactMs
  const deciding = applied.find((one) => isDeciding(one, decision))
  const stepMs = deciding === undefined ? undefined : windowStepMs(deciding.limit)
  if (stepMs === undefined) return exactMs
  const endMs = Math.round(exactMs / stepMs) * stepMs
  return Math.abs(endMs - exactMs) <= RESET_DIFFERENCE_MS_MAX ? endMs : exactMs
}

/** A decision on several limits has the figures of one of them. */
function isDeciding({ decision: one }: AppliedLimit, decision: Decision): boolean {
  return (
    one === decision ||
    (one.resetAfterMs === decision.resetAfterMs &&
      one.remaining === decision.remaining &&
      one.limit === decision.limit)
  )
}

/** The ends of a limit's windows are multiples of this; undefined if it has no such windows. */
function windowStepMs(limit: Limit): number | undefined {
  if (limit.algorithm === 'slidingWindow') return limit.perMs
  if (limit.algorithm !== 'fixedWindow') return undefined
  return typeof limit.per === 'number' ? limit.per : MINUTE_MS
}

function writeXRateLimit(head: ResponseHead, decision: Decision, resetMs: number): void {
  const other = head.getHeader('x-ratelimit-remaining')
  if (other !== undefined && Number(other) < decision.remaining) return
  head.setHeader('x-ratelimit-limit', String(decision.limit))
  head.setHeader('x-ratelimit-remaining', String(decision.remaining))
  const resetAt = wholeSeconds(resetMs)
  if (resetAt !== undefined) head.setHeader('x-ratelimit-reset', String(resetAt))
  const retryAfter = decision.allowed ? undefined : retryAfterSeconds(decision)
  if (retryAfter !== undefined) head.setHeader('x-ratelimit-retry-after', String(retryAfter))
}

function append(head: ResponseHead, name: string, list: string): void {
  const other = head.getHeader(name)
  head.setHeader(name, other === undefined ? list : `${other}, ${list}`)
}

function parameter(name: string, value: number | undefined): string {
  return value === undefined ? '' : `;${name}=${integer(value)}`
}

function integer(value: number): number {
  return Math.min(value, INTEGER_MAX)
}

function wholeSeconds(durationMs: number): number | undefined {
  return Number.isFinite(durationMs) ? Math.ceil(durationMs / 1000) : undefined
}
