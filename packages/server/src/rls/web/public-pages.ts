/**
 * The public pages: `/json` decides about a request in JSON, `/healthcheck` reports the health of
 * the service. As in the reference, any method is accepted.
 *
 * If the store does not respond, the status is 503; the reference returns 400.
 */

import type { RequestListener } from 'node:http'
import { ApiError } from '../../http-api/api-error.ts'
import { type ApiRequest, type ApiResponse, textResponse } from '../../http-api/messages.ts'
import { router } from '../../http-api/router.ts'
import { MESSAGE_BYTES_MAX, rpcStatus } from '../rpc.ts'
import { requestFromJson, responseToJson } from '../wire/json.ts'
import {
  codes,
  InvalidRequest,
  type RateLimitRequest,
  type RateLimitResponse,
} from '../wire/rate-limit-messages.ts'

/** Decides about requests. It does not reject. */
export interface DecisionPort {
  ask(request: RateLimitRequest, ids: CallIds): Promise<RateLimitResponse | Refusal>
}

/** The id of a call and its trace, or empty texts. */
export interface CallIds {
  readonly requestId: string
  readonly traceparent: string
}

/** The reason why there is no decision, as a status of gRPC. */
export interface Refusal {
  readonly status: number
  readonly text: string
}

export interface HealthPort {
  readonly isHealthy: boolean
}

/** A message in JSON has at most 4 times its bytes in protobuf. */
const BODY_BYTES_MAX = 4 * MESSAGE_BYTES_MAX

export function publicPages(service: DecisionPort, health: HealthPort): RequestListener {
  const healthcheck = () => {
    const { isHealthy } = health
    return textResponse(isHealthy ? 200 : 500, isHealthy ? 'OK' : '')
  }
  const routes = {
    '/healthcheck': { any: healthcheck },
    '/json': { any: (request: ApiRequest) => decide(request, service) },
  }
  return router({ routes, failed: failedResponse })
}

async function decide(request: ApiRequest, service: DecisionPort): Promise<ApiResponse> {
  const { requestId, headers } = request
  const ids = { requestId, traceparent: String(headers.traceparent ?? '') }
  const outcome = await service.ask(requestFromJson(await request.text(BODY_BYTES_MAX)), ids)
  if ('status' in outcome) {
    const isInvalid = outcome.status === rpcStatus.invalidArgument
    return textResponse(isInvalid ? 400 : 503, `${outcome.text}\n`)
  }
  return { status: statusOf(outcome), type: 'application/json', body: responseToJson(outcome) }
}

function statusOf({ overallCode }: RateLimitResponse): number {
  if (overallCode === codes.overLimit) return 429
  return overallCode === codes.ok ? 200 : 500
}

/** Returns the texts of the reference, for which a body that is too long is a bad request. */
export function failedResponse(error: unknown): ApiResponse {
  if (error instanceof ApiError && error.status === 404) {
    return textResponse(404, '404 page not found\n')
  }
  const isInvalid = error instanceof InvalidRequest || error instanceof ApiError
  return textResponse(isInvalid ? 400 : 500, isInvalid ? 'Bad Request\n' : '')
}
