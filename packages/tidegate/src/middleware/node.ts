/**
 * Middleware for node:http. It resolves to true if the request may continue, and to false if it has
 * responded: `if (!(await guard(request, response))) return`. It rejects if a function of the
 * options throws.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { createGuard, type GuardDecision } from '../http/guard.ts'
import type { GuardOptions } from '../http/guard-options.ts'
import { evaluateWith, sendProblem } from '../http/node-adapter.ts'

export interface NodeOptions extends GuardOptions<IncomingMessage> {
  /** Answers denied requests. Status and header fields are set, the body is the handler's. */
  readonly handler?: (
    request: IncomingMessage,
    response: ServerResponse,
    decision: GuardDecision,
  ) => unknown
}

export type NodeGuard = (request: IncomingMessage, response: ServerResponse) => Promise<boolean>

/** Returns a function that resolves to false after it has responded to a denied request. */
export function tidegate(options: NodeOptions): NodeGuard {
  const guard = createGuard(options, {
    remoteAddress: (request) => request.socket.remoteAddress,
    forwardedFor: (request) => request.headers['x-forwarded-for']?.toString(),
  })
  const { handler } = options

  return async function limitRequest(request, response) {
    const outcome = await evaluateWith(guard, request, response)
    if (outcome?.problem === undefined) return true
    response.statusCode = outcome.problem.status
    if (handler === undefined) sendProblem(response, outcome.problem)
    else await handler(request, response, outcome.decision)
    return false
  }
}
