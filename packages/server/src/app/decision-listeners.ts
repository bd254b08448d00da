/** What counts the decisions of a service: metrics by door, and the top lists of keys. */

import type { Decision } from 'tidegate'
import { secretReader } from '../config/secrets.ts'
import type { ChargeListener } from '../limits/charging/charge-plan.ts'
import type { DoorMetrics } from '../observability/metrics/door-metrics.ts'
import type { TopLists } from '../observability/top/top-lists.ts'
import type { CallListener } from '../rls/service/rate-limit-service.ts'
import type { PolicyRuntimeOptions } from './policy-runtime.ts'

/** Far shorter than a window of the top lists, and too rare to be noticed. */
const TURN_MS = 10_000

const callOutcomes = {
  within: 'admitted',
  over: 'denied',
  'store-failed': 'unavailable',
} as const

/** Counts a call of Envoy: its outcome by the limit that decided, and each of its limits. */
export function callCounter(door: DoorMetrics, top: TopLists | undefined): CallListener {
  return (outcome, events, tookMs) => {
    let deciding: Decision | undefined
    for (const { charge, decision } of events) {
      if (charge === undefined || decision === undefined || charge.isNegative) continue
      door.limitDecided(charge.name, decision, charge.isShadow)
      top?.add(charge.name, charge.key, decision)
      if (deciding === undefined || !decision.allowed) deciding = decision
    }
    door.called(callOutcomes[outcome], deciding, tookMs)
  }
}

export function topCounter(top: TopLists): ChargeListener {
  return ({ name, key }, decision) => top.add(name, key, decision)
}

/** Turns the windows of the lists; the result ends it. */
export function turning(top: TopLists): () => void {
  const timer = setInterval(() => top.turn(), TURN_MS).unref()
  return () => clearInterval(timer)
}

/** The first token of the admin API, so that all nodes with it have the same digests. */
export function topSecret({ config, environment }: PolicyRuntimeOptions): string | undefined {
  const { admin } = config.policy.value.document
  if (admin?.token === undefined) return undefined
  return `top lists ${secretReader(environment, config.folder)(admin.token, 'admin.token')}`
}
