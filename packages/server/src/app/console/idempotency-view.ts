/** Requests with idempotency keys for the console, from two readings of the metrics. */

import type { IdempotencyView, KeyCount } from '../../admin/console/console-types.ts'
import { type IsWanted, type Reading, rateOf, samplesOf, sumOf } from './store-views.ts'

const REQUESTS = 'tidegate_idempotency_requests_total'

const executions = ['executed', 'retried', 'unprotected']

/** The key is in use, or was used in another way. All further outcomes are refusals. */
const conflicts = ['key_reused', 'in_progress', 'response_not_kept', 'outcome_unknown']

/** Null if the policy in force has no keys. */
export function idempotencyView(before: Reading, now: Reading): IdempotencyView | null {
  const flight = samplesOf(now, 'tidegate_idempotency_in_flight')
  if (flight.length === 0) return null
  const inState = (state: string) => flight.find(({ labels }) => labels.state === state)?.value ?? 0
  const countOf = (isOutcome: (outcome: string) => boolean): KeyCount => {
    const isWanted: IsWanted = ({ outcome = '' }) => isOutcome(outcome)
    return {
      perSecond: rateOf(before, now, REQUESTS, isWanted),
      total: sumOf(now, REQUESTS, isWanted),
    }
  }
  const others = new Set([...executions, ...conflicts, 'replayed'])
  return {
    executing: inState('executing'),
    waiting: inState('waiting'),
    executed: countOf((outcome) => executions.includes(outcome)),
    replayed: countOf((outcome) => outcome === 'replayed'),
    conflicts: countOf((outcome) => conflicts.includes(outcome)),
    refused: countOf((outcome) => !others.has(outcome)),
  }
}
