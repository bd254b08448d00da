/** The spans of a sampled call: that of the call, and that of its decision. */

import type { Decision, MaybePromise } from 'tidegate'
import type { ChargeGroups } from '../../limits/charging/charge-group.ts'
import type { BegunTrace, TracedRequest, Tracing } from '../../observability/tracing/tracing.ts'
import type { RlsPlan } from './rls-plan.ts'

export interface RlsTracing {
  readonly tracing: Tracing
  /** True if the counters are in a store outside of this process. */
  readonly isShared: boolean
}

/** As OpenTelemetry names a method: the path without its first slash. */
const METHOD = 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

const outcomes = { true: 'allowed', false: 'denied' } as const

export class TracedRls {
  readonly #span: TracedRequest
  readonly #isShared: boolean

  constructor({ tracing, isShared }: RlsTracing, begun: BegunTrace) {
    this.#isShared = isShared
    this.#span = tracing.request(begun, undefined, METHOD, {
      'rpc.system.name': 'grpc',
      'rpc.method': METHOD,
    })
  }

  get traceId(): string {
    return this.#span.traceId
  }

  charge(groups: ChargeGroups, plan: RlsPlan): MaybePromise<readonly Decision[]> {
    const { charges } = plan
    return this.#span.check(
      'rls',
      this.#isShared,
      () => groups.charge(charges),
      (decisions) => {
        const applied = charges.flatMap(({ name, limit, isShadow }, at) => {
          return isShadow ? [] : [{ name, limit, decision: decisions[at] as Decision }]
        })
        const isAllowed = applied.every(({ decision }) => decision.allowed)
        return { outcome: outcomes[`${isAllowed}`], applied }
      },
    )
  }

  /** `status` is that of gRPC. */
  end(status: number): void {
    const isError = status !== 0
    const attributes = {
      'rpc.response.status_code': String(status),
      ...(isError && { 'error.type': String(status) }),
    }
    this.#span.end(undefined, attributes, isError)
  }
}
