/** From a check to the limits of the policy, and from their verdict to the answer. */

import type { AppliedLimit, Decision, MaybePromise } from 'tidegate'
import { parseIp } from 'tidegate/http'
import type { Enforcer } from '../policy/enforcer.ts'
import type { Identity, RequestFacts } from '../policy/request-facts.ts'
import type { Verdict } from '../policy/verdict.ts'
import type { Check, CheckResult } from './check-schema.ts'
import { BadRequest } from './decision-api.ts'

export async function judgeCheck(enforcer: Enforcer, check: Check): Promise<CheckResult> {
  const verdict = await verdictOf(enforcer, check)
  // Nobody could give them back later: whether there was room is what is answered.
  verdict.release?.()
  await verdict.shadowing
  const { evaluation, outcome, refusedBy, shadowed } = verdict
  return {
    outcome,
    allowed: outcome === 'admitted',
    refusedBy: refusedBy ?? null,
    decision: evaluation === undefined ? null : plain(evaluation.decision),
    limits: (evaluation?.applied ?? []).map(named),
    shadowed: shadowed.map(named),
  }
}

async function verdictOf(enforcer: Enforcer, check: Check): Promise<Verdict> {
  if ('request' in check) return judgeRequest(enforcer, check)
  const { limits, cost, tier, peek } = check
  const result = await enforcer.check({
    limits: limits.map(({ name, key, cost: own }) => ({ name, key, cost: own ?? cost })),
    peek,
    ...(tier === undefined ? undefined : { tier }),
  })
  if (result.ok) return result.verdict
  throw new BadRequest(400, result.problem)
}

function judgeRequest(
  enforcer: Enforcer,
  { request }: Extract<Check, { request: unknown }>,
): MaybePromise<Verdict> {
  const { method, path, headers, identity } = request
  const ip = request.ip === undefined ? undefined : parseIp(request.ip)?.text
  if (request.ip !== undefined && ip === undefined) {
    throw new BadRequest(400, 'request.ip: not an IP address')
  }
  const fields = new Map(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  )
  const facts: RequestFacts = {
    method: method.toUpperCase(),
    path,
    ip,
    identity: definedOf(identity),
    header: (name) => fields.get(name),
  }
  return enforcer.judge(facts)
}

function definedOf(identity: Readonly<Record<string, unknown>>): Identity {
  return Object.fromEntries(Object.entries(identity).filter(([, value]) => value !== undefined))
}

function named({ name, decision }: AppliedLimit): CheckResult['limits'][number] {
  return { name, ...plain(decision) }
}

/** JSON has no Infinity. */
function plain({ allowed, limit, remaining, retryAfterMs, resetAfterMs, degraded }: Decision) {
  return {
    allowed,
    limit,
    remaining,
    retryAfterMs: finite(retryAfterMs),
    resetAfterMs: finite(resetAfterMs),
    degraded,
  }
}

function finite(durationMs: number): number | null {
  return Number.isFinite(durationMs) ? durationMs : null
}
