/** The decision API of a policy, with its metrics, lines and spans. */

import type { Check } from '../../decision-api/check-schema.ts'
import { startDecisionApi } from '../../decision-api/decision-api.ts'
import {
  evaluateCheck,
  type OutcomeListener,
  priorityMax,
  priorityOfChecks,
} from '../../decision-api/evaluate-check.ts'
import type { RunningListener } from '../../http-api/listener.ts'
import type { ApiRequest } from '../../http-api/messages.ts'
import type { DecisionLog } from '../../observability/decision-log.ts'
import type { Emit } from '../../observability/events.ts'
import type { DoorMetrics } from '../../observability/metrics/door-metrics.ts'
import type { Tracing } from '../../observability/tracing/tracing.ts'
import type { PolicyDocument } from '../../policy/schema/policy-schema.ts'
import { logCheck } from '../logs/decision-lines.ts'
import type { PolicyRuntime } from '../policy-runtime.ts'

export interface DecisionDoorParts {
  readonly runtime: PolicyRuntime
  readonly decisions: DecisionLog
  /** Without it, nothing is counted. */
  readonly door: DoorMetrics | undefined
  readonly tracing: Tracing | undefined
  /** True if the counters are in a store outside of this process. */
  readonly isShared: boolean
  /** The version of the program. */
  readonly version: string
  readonly emit: Emit
}

/** Undefined if the policy has no section for it. */
export async function openDecisionApi(
  { decisionApi, gateway }: PolicyDocument,
  { runtime, decisions, door, tracing, isShared, version, emit }: DecisionDoorParts,
): Promise<RunningListener | undefined> {
  if (decisionApi === undefined) return undefined
  const { listen, token, batchMax, bodyBytesMax } = decisionApi
  const { enforcer, failures, overload, readSecret } = runtime
  const listener =
    (check: Check, request: ApiRequest): OutcomeListener =>
    (outcome, tookMs, traceId) => {
      if (outcome !== 'forbidden') door?.decidedAfter(outcome, tookMs, traceId)
      logCheck(decisions, outcome, tookMs, { check, request })
    }
  return startDecisionApi({
    host: listen.host ?? '127.0.0.1',
    port: listen.port,
    token: readSecret(token, 'decisionApi.token'),
    batchMax,
    bodyBytesMax,
    version,
    failures,
    ipv6Prefix: gateway.ipv6Prefix,
    overload,
    priorityMax: () => priorityMax(enforcer()),
    priorityOf: (checks) => priorityOfChecks(enforcer(), checks),
    tracing,
    onError: (error) => emit({ type: 'error', error }),
    evaluate: (check, request, span) =>
      evaluateCheck(enforcer(), check, listener(check, request), span && { span, isShared }),
  })
}
