/** Stages, and how they become one handler. */

import type { MaybePromise } from 'tidegate'
import type { GatewayRequest, GatewayResponse } from './message.ts'

export type Handler = (request: GatewayRequest) => MaybePromise<GatewayResponse>

/** Calls `next` to pass the request on, or responds itself. */
export type Stage = (request: GatewayRequest, next: Handler) => MaybePromise<GatewayResponse>

/**
 * Stages in the order in which they see a request; the last one has to respond. A feature that is
 * not configured has no stage.
 */
export function pipeline(stages: readonly (Stage | undefined)[]): Handler {
  const noStage: Handler = () => {
    throw new Error('no stage has responded')
  }
  return stages
    .filter((stage) => stage !== undefined)
    .reduceRight<Handler>((next, stage) => (request) => stage(request, next), noStage)
}

/** Like `then`, but synchronous for a value that is not a promise, as most are. */
export function whenDone<T, U>(value: MaybePromise<T>, then: (value: T) => U): MaybePromise<U> {
  return value instanceof Promise ? value.then(then) : then(value)
}
