/**
 * The response to a denied request: problem details (https://www.rfc-editor.org/rfc/rfc9457) with
 * the problem types of the RateLimit draft. It names the limits and nothing that the client sent.
 */

import type { Decision } from '../decision.ts'
import type { AppliedLimit, Evaluation } from '../limiter/limiter.ts'
import { retryAfterSeconds } from './headers.ts'

export const PROBLEM_CONTENT_TYPE = 'application/problem+json'

export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: 429 | 503
  readonly detail: string
  /** The names of the limits that denied. */
  readonly 'violated-policies': readonly string[]
  /** The three members that clients without support for problem details usually read. */
  readonly error: string
  readonly message: string
  /** Seconds; absent if no wait ever admits the request. */
  readonly retry_after?: number
}

const TYPES = 'https://iana.org/assignments/http-problem-types'

const quotaExceeded = {
  type: `${TYPES}#quota-exceeded`,
  title: 'Request cannot be satisfied as assigned quota has been exceeded',
  status: 429,
  error: 'Rate limit exceeded',
} as const

/** The client did nothing wrong, so the status is not 429. */
const reducedCapacity = {
  type: `${TYPES}#temporary-reduced-capacity`,
  title: 'Request cannot be satisfied due to temporary server capacity constraints',
  status: 503,
  error: 'Rate limiter unavailable',
} as const

export function problemOf({ decision, applied }: Evaluation<Decision>): Problem {
  const violated = applied.filter((one) => !one.decision.allowed)
  const names = violated.map(({ name }) => name)
  const isOutage = violated.some(isUnavailable)
  const { type, title, status, error } = isOutage ? reducedCapacity : quotaExceeded
  const seconds = retryAfterSeconds(decision)
  const detail = isOutage ? outageDetail(seconds) : exceededDetail(names, seconds)
  return {
    type,
    title,
    status,
    detail,
    'violated-policies': names,
    error,
    message: detail,
    ...(seconds === undefined ? undefined : { retry_after: seconds }),
  }
}

/** Refused because the store did not answer, or not in time; nothing was used up. */
function isUnavailable({ decision }: AppliedLimit): boolean {
  const mode = decision.degraded?.mode
  return mode === 'closed' || mode === 'shed'
}

function exceededDetail(names: readonly string[], seconds: number | undefined): string {
  const limits = `${names.length === 1 ? 'limit' : 'limits'} ${names.join(', ')}`
  const advice = seconds === undefined ? 'No wait will admit this one' : tryAgain(seconds)
  return `Too many requests for ${limits}. ${advice}.`
}

function outageDetail(seconds: number | undefined): string {
  const advice = seconds === undefined ? 'Try again later' : tryAgain(seconds)
  return `The rate limiter is temporarily unavailable. ${advice}.`
}

function tryAgain(seconds: number): string {
  return `Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}`
}
