/** What counts the decisions of a service: metrics by door, and the top lists of keys. */

import type { Decision } from 'tidegate'
import type { IdempotencyEvent } from 'tidegate/idempotency'
import type { ChargeListener } from '../../limits/charging/charge-plan.ts'
import type { Emit } from '../../observability/events.ts'
import type { DoorMetrics } from '../../observability/metrics/door-metrics.ts'
import type { IdempotencyMetrics } from '../../observability/metrics/idempotency-metrics.ts'
import type { TopLists } from '../../observability/top/top-lists.ts'
import { descriptorOf, domainOf } from '../../rls/service/counter-key.ts'
import type { CallListener } from '../../rls/service/rate-limit-service.ts'

/** The list of descriptors whose text is too long for a key. */
const LONG_KEYS = 'long descriptors'

/** Far shorter than a window of the top lists, and too rare to be noticed. */
const TURN_MS = 10_000

const callOutcomes = {
  within: 'admitted',
  over: 'denied',
  'store-failed': 'unavailable',
} as const

/** Limits of a policy have the name of their counter, and those of Envoy's files that of a rule. */
export type NameSource = 'counter' | 'rule'

/** Counts a call of Envoy: its outcome by the limit that decided, and each of its limits. */
export function callCounter(
  door: DoorMetrics,
  names: NameSource,
  onDecision?: ChargeListener,
): CallListener {
  return (outcome, events, tookMs, _request, _ids, traceId) => {
    let deciding: Decision | undefined
    for (const { charge, decision, subject } of events) {
      if (charge === undefined || decision === undefined || charge.isNegative) continue
      const name = names === 'rule' ? subject.stats.rule : charge.name
      door.limitDecided(name, decision, charge.isShadow)
      onDecision?.(charge, decision)
      if (deciding === undefined || !decision.allowed) deciding = decision
    }
    door.called(callOutcomes[outcome], deciding, tookMs, traceId)
  }
}

/** Calls the first one if there is one, and then the second. */
export function bothListeners(first: CallListener | undefined, second: CallListener): CallListener {
  if (first === undefined) return second
  return (...call) => {
    first(...call)
    second(...call)
  }
}

/** Counts the descriptors of Envoy's calls by domain. Keys that are too long have no domain. */
export function descriptorCounter(top: TopLists, keyPrefix: string): CallListener {
  return (_outcome, events) => {
    for (const { charge, decision } of events) {
      if (charge === undefined || decision === undefined || charge.isNegative) continue
      const domain = domainOf(keyPrefix, charge.key) ?? LONG_KEYS
      top.add(domain, charge.key, decision)
    }
  }
}

/** The words of a descriptor, as the commands for operators take them. */
export function descriptorText(keyPrefix: string, key: string): string {
  return descriptorOf(keyPrefix, key)?.entries.join(' ') ?? key
}

/** Turns the windows of the lists; the result ends it. */
export function turning(top: TopLists): () => void {
  const timer = setInterval(() => top.turn(), TURN_MS).unref()
  return () => clearInterval(timer)
}

/** Counts requests with idempotency keys, and reports the failures of their store. */
export function keyObserver(metrics: IdempotencyMetrics | undefined, emit: Emit) {
  return (event: IdempotencyEvent): void => {
    metrics?.observe(event)
    if (event.type === 'superseded') {
      const reason = 'another request has taken over the key of a slow one'
      emit({ type: 'idempotency', problem: event.type, reason })
    } else if ('error' in event) {
      const { type: problem, error } = event
      const reason = error instanceof Error ? error.message : String(error)
      emit({ type: 'idempotency', problem, reason })
    }
  }
}
