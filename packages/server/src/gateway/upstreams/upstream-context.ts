/** The values of a request's context that connect the stages with upstreams. */

import { createContextKey } from '../context.ts'
import type { GatewayRequest } from '../message.ts'

/** Path and query as the upstream gets them. */
export const upstreamTarget = createContextKey('')

/** True for a critical request in an overload: it goes before others that wait for a connection. */
export const isUrgent = createContextKey(false)

/** The time from sending the request until its response began or failed. */
export const upstreamMs = createContextKey<number | undefined>(undefined)

/** The target that got the request, the last one if there were several. */
export const usedTarget = createContextKey<string | undefined>(undefined)

/** The targets that a traced request was sent to, in turn; undefined for other requests. */
export const triedTargets = createContextKey<string[] | undefined>(undefined)

/** Called if a response breaks off after its head. */
export const onIncomplete = createContextKey<ReportIncomplete | undefined>(undefined)

export type ReportIncomplete = (request: GatewayRequest, response: IncompleteResponse) => void

export interface IncompleteResponse {
  readonly status: number
  readonly target: string
  /** The code of an error, such as `UPSTREAM_IDLE_TIMEOUT`. */
  readonly reason: string
}
