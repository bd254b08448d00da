/**
 * Answers to refused requests, made once and given often. In a flood most of them are the same to
 * the byte: the same limit, the same whole seconds to wait. Then nothing is left to do but to send
 * what is there, and a refusal costs less than an answer.
 */

import type { Decision, Evaluation } from 'tidegate'
import {
  type HeaderDialect,
  PROBLEM_CONTENT_TYPE,
  problemOf,
  windowSeconds,
  writeHeaders,
} from 'tidegate/http'
import { ListHead } from '../list-head.ts'
import type { GatewayResponse } from '../message.ts'
import { answer } from '../refusal.ts'

/** About a megabyte. Different answers beyond it are made anew. */
const ANSWERS_MAX = 1_024

/** The answer is shared: nobody may change it. */
export type RefusedAnswer = (evaluation: Evaluation<Decision>) => GatewayResponse

export function refusedAnswers(dialect: HeaderDialect): RefusedAnswer {
  const known = new Map<string, GatewayResponse>()
  let second = 0
  return (evaluation) => {
    const nowMs = Date.now()
    const nowSecond = Math.floor(nowMs / 1_000)
    if (nowSecond !== second || known.size >= ANSWERS_MAX) {
      // They carry the date, and are not for longer.
      known.clear()
      second = nowSecond
    }
    const key = keyOf(evaluation, nowMs)
    const found = known.get(key)
    if (found !== undefined) return found
    const problem = problemOf(evaluation)
    const made = answer(problem.status, JSON.stringify(problem), PROBLEM_CONTENT_TYPE)
    writeHeaders(new ListHead(made.headers), evaluation, dialect, nowMs)
    made.isShared = true
    known.set(key, made)
    return made
  }
}

/** Everything that an answer says. */
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
