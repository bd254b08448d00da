/**
 * Middleware for node:http. It resolves with whether to go on; where it does not, it has answered:
 * `if (!(await guard(request, response))) return`. It rejects where a function of the options does.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { createGuard, type GuardDecision } from '../http/guard.ts'
import type { GuardOptions } from '../http/guard-options.ts'
import { judgeWith, sendProblem } from '../http/node-response.ts'

export interface NodeOptions extends GuardOptions<IncomingMessage> {
  /** Answers denied requests. Status and header fields are set, the body is the handler's. */
  readonly handler?: (
    request: IncomingMessage,
    response: ServerResponse,
    decision: GuardDecision,
  ) => unknown
}

export type NodeGuard = (request: IncomingMessage, response: ServerResponse) => Promise<boolean>

export function tidegate(options: NodeOptions): NodeGuard {
  const guard = createGuard(options, {
    remoteAddress: (request) => request.socket.remoteAddress,
    forwardedFor: (request) => request.headers['x-forwarded-for']?.toString(),
  })
  const { handler } = options

  return async function limitRequest(request, response) {
    const verdict = await judgeWith(guard, request, response)
    if (verdict?.problem === undefined) return true
    response.statusCode = verdict.problem.status
    if (handler === undefined) sendProblem(response, verdict.problem)
    else await handler(request, response, verdict.decision)
    return false
  }
}
