/** Evaluates a check by the limits of the policy, and turns the outcome into the response. */

import type { AppliedLimit, Decision, MaybePromise } from 'tidegate'
import { parseIp } from 'tidegate/http'
import { ApiError } from '../http-api/api-error.ts'
import type { Enforcer } from '../limits/enforcer.ts'
import { blockedOutcome, type RequestOutcome } from '../limits/outcome.ts'
import { higher, PRIORITY_DEFAULT, type Priority } from '../limits/priority.ts'
import type { Identity, RequestFacts } from '../limits/request-facts.ts'
import { checkOutcome } from '../observability/tracing/check-outcome.ts'
import type { TracedRequest, Within } from '../observability/tracing/tracing.ts'
import type { Check, CheckResult } from './check-schema.ts'

/** Receives the outcome of every check that charges, and the time that it took. */
export type OutcomeListener = (
  outcome: RequestOutcome | 'forbidden',
  tookMs: number,
  traceId: string | undefined,
) => void

/** The span of a sampled request. */
export interface CheckSpan {
  readonly span: TracedRequest
  /** True if the counters are in a store outside of this process. */
  readonly isShared: boolean
}

/** Throws if the check is invalid. Charges nothing until the returned function is called. */
export function evaluateCheck(
  enforcer: Enforcer,
  check: Check,
  onOutcome?: OutcomeListener,
  traced?: CheckSpan,
): () => Promise<CheckResult> {
  const evaluate = 'request' in check ? ofRequest(enforcer, check) : ofNames(enforcer, check)
  return async () => {
    const startMs = performance.now()
    const found = await (traced === undefined ? evaluate() : withSpan(traced, evaluate))
    if (!check.peek) onOutcome?.(found, performance.now() - startMs, traced?.span.traceId)
    return found === 'forbidden' ? forbidden : resultOf(found)
  }
}

/** Called with a function that calls around later charges, if the check is traced. */
type Evaluate = (within?: Within) => MaybePromise<RequestOutcome | 'forbidden'>

function withSpan({ span, isShared }: CheckSpan, evaluate: Evaluate) {
  return span.check('decision_api', isShared, evaluate, (found) => {
    return found === 'forbidden' ? { outcome: found, applied: [] } : checkOutcome(found)
  })
}

/** The highest priority that a check can have by the limits and tiers of the policy. */
export function priorityMax({ priorities }: Enforcer): Priority {
  const stated = higher(priorities.limitMax, priorities.tierMax)
  return higher(stated, PRIORITY_DEFAULT) ?? PRIORITY_DEFAULT
}

/**
 * The priority of a request with these checks: the highest of theirs. A tier counts if the check
 * names it; one that has to be looked up does not, because the look-up is what overload forbids.
 */
export function priorityOfChecks(enforcer: Enforcer, checks: readonly Check[]): Priority {
  let found: Priority | undefined
  for (const check of checks) {
    found = higher(found, priorityOfCheck(enforcer, check) ?? PRIORITY_DEFAULT)
  }
  return found ?? PRIORITY_DEFAULT
}

function priorityOfCheck({ priorities }: Enforcer, check: Check): Priority | undefined {
  if ('limits' in check) {
    const byLimits = priorities.ofLimits(check.limits.map(({ name }) => name))
    return higher(byLimits, priorities.ofTier(check.tier))
  }
  const { request } = check
  return higher(priorities.ofRequest(factsOf(request)), priorities.ofTier(request.identity.tier))
}

/** The result for an address on the deny list. */
const forbidden: CheckResult = {
  outcome: 'forbidden',
  allowed: false,
  refusedBy: null,
  decision: null,
  limits: [],
  shadowed: [],
}

async function resultOf(found: RequestOutcome): Promise<CheckResult> {
  // The client cannot release slots later; the result reports only if one was free.
  found.release?.()
  await found.shadowing
  const { evaluation, outcome, refusedBy, shadowed } = found
  return {
    outcome,
    allowed: outcome === 'admitted',
    refusedBy: refusedBy ?? null,
    decision: evaluation === undefined ? null : plain(evaluation.decision),
    limits: (evaluation?.applied ?? []).map(named),
    shadowed: shadowed.map(named),
  }
}

function ofNames(
  enforcer: Enforcer,
  { limits, cost, tier, peek }: Extract<Check, { limits: unknown }>,
): () => MaybePromise<RequestOutcome> {
  const prepared = enforcer.prepare({
    limits: limits.map(({ name, key, cost: own }) => ({ name, key, cost: own ?? cost })),
    peek,
    ...(tier === undefined ? undefined : { tier }),
  })
  if (!prepared.ok) throw new ApiError(400, prepared.problem)
  return () => prepared.evaluate()
}

function ofRequest(
  enforcer: Enforcer,
  { request, cost, peek }: Extract<Check, { request: unknown }>,
): Evaluate {
  const facts = factsOf(request)
  if (request.ip !== undefined && facts.ip === undefined) {
    const shown = JSON.stringify(request.ip)
    throw new ApiError(400, `request.ip: ${shown} is not allowed; allowed: an IP address`)
  }
  return (within) => {
    const block = enforcer.addressBlock(facts.ip)
    if (block !== undefined) return blockedOutcome(block)
    const listed = enforcer.ipRule(facts.ip)
    if (listed === 'deny') return 'forbidden'
    const checked = { peek, isExempt: listed === 'allow', isAddressChecked: true }
    return enforcer.evaluate(facts, { cost, ...checked, ...(within && { within }) })
  }
}

function factsOf(request: Extract<Check, { request: unknown }>['request']): RequestFacts {
  const { method, path, headers, identity, ip } = request
  const fields = new Map(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  )
  return {
    method: method.toUpperCase(),
    path,
    ip: ip === undefined ? undefined : parseIp(ip)?.text,
    identity: definedOf(identity),
    header: (name) => fields.get(name),
  }
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
