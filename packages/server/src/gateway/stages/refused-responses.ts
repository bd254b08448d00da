/**
 * Responses to denied requests, cached for a second. In a flood most of them are equal to the byte:
 * the same limit and the same whole seconds to wait. A cached refusal costs less than a response.
 */

import type { Decision, Evaluation } from 'tidegate'
import {
  type HeaderDialect,
  PROBLEM_CONTENT_TYPE,
  problemOf,
  windowSeconds,
  writeHeaders,
} from 'tidegate/http'
import { HeaderListWriter } from '../header-list.ts'
import type { GatewayResponse } from '../message.ts'
import { textResponse } from '../refusal.ts'

/** About 1 MB. When it is reached, the cache starts empty again. */
const RESPONSES_MAX = 1_024

/** Returns a shared response, which must not be changed. */
export type RefusedResponse = (evaluation: Evaluation<Decision>) => GatewayResponse

export function refusedResponses(
  dialect: HeaderDialect,
  reportsDegraded: boolean,
): RefusedResponse {
  const known = new Map<string, GatewayResponse>()
  let second = 0
  return (evaluation) => {
    const nowMs = Date.now()
    const nowSecond = Math.floor(nowMs / 1_000)
    if (nowSecond !== second || known.size >= RESPONSES_MAX) {
      // They carry the date.
      known.clear()
      second = nowSecond
    }
    const key = keyOf(evaluation, nowMs)
    const found = known.get(key)
    if (found !== undefined) return found
    const problem = problemOf(evaluation)
    const made = textResponse(problem.status, JSON.stringify(problem), PROBLEM_CONTENT_TYPE)
    writeHeaders(new HeaderListWriter(made.headers, reportsDegraded), evaluation, dialect, nowMs)
    made.isShared = true
    known.set(key, made)
    return made
  }
}

/** Everything that the text of a response depends on. */
function keyOf({ decision, applied }: Evaluation<Decision>, nowMs: number): string {
  let key = figuresOf(decision, nowMs)
  const [only] = applied
  if (only !== undefined && applied.length === 1 && only.decision === decision) {
    return `${key}|${only.name},${windowSeconds(only.limit)}`
  }
  for (const one of applied) {
    key += `|${one.name},${windowSeconds(one.limit)},${figuresOf(one.decision, nowMs)}`
  }
  return key
}

function figuresOf(decision: Decision, nowMs: number): string {
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs, degraded } = decision
  const resetAt = Math.ceil((nowMs + resetAfterMs) / 1_000)
  const times = `${Math.ceil(retryAfterMs / 1_000)},${Math.ceil(resetAfterMs / 1_000)},${resetAt}`
  const state = degraded === null ? '' : `${degraded.reason},${degraded.mode}`
  return `${allowed},${limit},${remaining},${times},${state}`
}
