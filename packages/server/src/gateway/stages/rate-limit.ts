/**
 * Charges the limits of the policy. A request that they deny is refused here, before it costs
 * anything else; the response to an admitted request reports the remaining units.
 */

import type { MaybePromise } from 'tidegate'
import { writeHeaders } from 'tidegate/http'
import type { RequestCheck } from '../../limits/enforcer.ts'
import { type RequestOutcome, unlimited } from '../../limits/outcome.ts'
import type { DoorMetrics } from '../../observability/metrics/door-metrics.ts'
import { checkOutcome } from '../../observability/tracing/check-outcome.ts'
import type { TracedRequest, Within } from '../../observability/tracing/tracing.ts'
import type { GatewaySection } from '../../policy/schema/listener-section.ts'
import { createContextKey } from '../context.ts'
import { HeaderListWriter } from '../header-list.ts'
import type { LivePolicy } from '../live-policy.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import { type Handler, type Stage, whenDone } from '../pipeline.ts'
import { refusal } from '../refusal.ts'
import { requestSpan } from '../request-trace.ts'
import { blockedResponse } from './blocked-response.ts'
import { isExempt } from './ip-lists.ts'
import { preflightMethod } from './preflights.ts'
import type { RefusedResponse } from './refused-responses.ts'

/** The header fields that responses carry. */
export type HeaderOptions = Pick<GatewaySection, 'headers' | 'degradedHeaders'>

/** The stage for IP lists has refused blocked addresses. */
const checked: RequestCheck = { isAddressChecked: true }
const exempt: RequestCheck = { isAddressChecked: true, isExempt: true }

/** The decision of the limits, once there is one. */
export const limitOutcome = createContextKey<RequestOutcome | undefined>(undefined)

/** True if the limits were charged when the same request was first executed. */
export const isChargedBefore = createContextKey(false)

/** How long the store took to decide. */
export const storeMs = createContextKey(0)

export function rateLimit(
  policy: LivePolicy,
  { headers: dialect, degradedHeaders }: HeaderOptions,
  refusedResponse: RefusedResponse,
  metrics?: DoorMetrics | undefined,
): Stage {
  const proceed = (request: GatewayRequest, verdict: RequestOutcome, next: Handler) => {
    const { outcome, evaluation, release, block } = verdict
    request.context.set(limitOutcome, verdict)
    if (release !== undefined) request.onEnd(release)
    if (outcome === 'admitted') {
      const response = next(request)
      if (evaluation === undefined) return response
      return whenDone(response, (sent) => {
        const writer = new HeaderListWriter(sent.headers, degradedHeaders)
        writeHeaders(writer, evaluation, dialect, Date.now())
        return sent
      })
    }
    if (block !== undefined) return blockedResponse(block)
    if (outcome === 'missing-key' || evaluation === undefined) return missingKey()
    return refusedResponse(evaluation)
  }
  return (request, next): MaybePromise<GatewayResponse> => {
    const { context } = request
    if (context.get(preflightMethod) !== undefined) return next(request)
    const isFree = context.get(isExempt) || context.get(isChargedBefore)
    const startedMs = metrics?.startMs() ?? 0
    const span = context.get(requestSpan)
    const asked = isFree ? exempt : checked
    const verdict =
      span === undefined
        ? policy.enforcer().evaluate(request, asked)
        : evaluateTraced(span, policy, request, asked)
    const traceId = span?.traceId
    if (isFree && verdict === unlimited) return next(request)
    if (!(verdict instanceof Promise)) {
      metrics?.decided(verdict, startedMs, traceId)
      return proceed(request, verdict, next)
    }
    const startMs = performance.now()
    // A promise that is resolved with another promise takes two more turns of the event loop.
    return new Promise((resolve, reject) => {
      const onVerdict = (found: RequestOutcome) => {
        const tookMs = performance.now() - startMs
        context.set(storeMs, tookMs)
        metrics?.decidedAfter(found, tookMs, traceId)
        try {
          const response = proceed(request, found, next)
          if (response instanceof Promise) response.then(resolve, reject)
          else resolve(response)
        } catch (error) {
          reject(error)
        }
      }
      verdict.then(onVerdict, reject)
    })
  }
}

function evaluateTraced(
  span: TracedRequest,
  policy: LivePolicy,
  request: GatewayRequest,
  asked: RequestCheck,
): MaybePromise<RequestOutcome> {
  const decide = (within: Within) => policy.enforcer().evaluate(request, { ...asked, within })
  return span.check('gateway', policy.isShared === true, decide, checkOutcome)
}

function missingKey(): GatewayResponse {
  // https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1
  return refusal(401, 'This request needs credentials that identify its sender.', [
    'www-authenticate',
    'ApiKey',
  ])
}
