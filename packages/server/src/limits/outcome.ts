/** The outcome of one request: plain values, which each front end turns into a response. */

import {
  type AppliedLimit,
  type Charge,
  combineDecisions,
  type Decision,
  type Evaluation,
} from 'tidegate'
import { isUnavailable } from './charging/charge-plan.ts'
import type { LiveBlock } from './live/live-entries.ts'

/**
 * `admitted`: goes on. `denied`: a limit is exceeded (429). `unavailable`: the store of a limit
 * does not answer, and the limit refuses then (503). `missing-key`: the request lacks the key that
 * a limit needs (401). `blocked`: an operator has blocked the client (403 or 429).
 */
export type Outcome = 'admitted' | 'denied' | 'unavailable' | 'missing-key' | 'blocked'

export interface RequestOutcome {
  readonly outcome: Outcome
  /** The enforced limits, and the decision of the most restrictive; undefined without any. */
  readonly evaluation: Evaluation<Decision> | undefined
  /**
   * Decisions of limits in shadow mode for a request that the others admitted. The request does not
   * wait for a remote store: decisions may be missing until `shadowing` resolves.
   */
  readonly shadowed: readonly AppliedLimit[]
  /** Never rejects; undefined if `shadowed` is complete. */
  readonly shadowing: Promise<void> | undefined
  /** The name of the limit that refused. */
  readonly refusedBy: string | undefined
  /** The block that refused. */
  readonly block?: LiveBlock | undefined
  /** Every limit that was evaluated, with its key. Logs have a keyed digest of it. */
  keys(): ReadonlyArray<{ readonly limit: string; readonly key: string }>
  /** Call it when a request that holds slots has ended. Further calls do nothing. */
  readonly release: (() => void) | undefined
}

/** For requests that fall under no limit. */
export const unlimited: RequestOutcome = Object.freeze({
  outcome: 'admitted',
  evaluation: undefined,
  shadowed: Object.freeze([]),
  shadowing: undefined,
  refusedBy: undefined,
  keys: () => [],
  release: undefined,
})

/** For a request without the key that a limit needs. */
export function missingKeyOutcome(limit: string): RequestOutcome {
  return { ...unlimited, outcome: 'missing-key', refusedBy: limit }
}

export function blockedOutcome(block: LiveBlock): RequestOutcome {
  return { ...unlimited, outcome: 'blocked', block }
}

/** The outcome of enforced limits, without shadows and slots. */
export function enforcedOutcome(
  charges: readonly Charge[],
  decisions: readonly Decision[],
): Pick<RequestOutcome, 'outcome' | 'evaluation' | 'refusedBy'> {
  const applied = charges.map(({ name, limit }, at): AppliedLimit => {
    return { name, limit, decision: decisions[at] as Decision }
  })
  const [first] = decisions
  if (first === undefined) return unlimited
  const names = () => applied.map(({ name }) => name)
  const decision = decisions.length === 1 ? first : combineDecisions(names(), decisions)
  const outcome = outcomeOf(applied)
  const refusedBy = outcome === 'admitted' ? undefined : refuser(applied)
  return { outcome, evaluation: { decision, applied }, refusedBy }
}

function outcomeOf(applied: readonly AppliedLimit[]): Outcome {
  let outcome: Outcome = 'admitted'
  for (const { decision } of applied) {
    if (decision.allowed) continue
    if (isUnavailable(decision)) return 'unavailable'
    outcome = 'denied'
  }
  return outcome
}

/** The denying limit with the longest wait, because that one decides when to retry. */
function refuser(applied: readonly AppliedLimit[]): string | undefined {
  let found: AppliedLimit | undefined
  for (const one of applied) {
    if (one.decision.allowed) continue
    if (found === undefined || one.decision.retryAfterMs > found.decision.retryAfterMs) found = one
  }
  return found?.name
}
