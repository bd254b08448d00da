/**
 * Idempotency keys for node:http. The function resolves to true if the request may continue, and to
 * false if it has responded: `if (!(await useKey(request, response))) return`.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ParsedRequest } from '../../idempotency/node/request-body.ts'
import { keyed, type MiddlewareOptions } from '../../idempotency/node/run-keyed.ts'
import { sendKept, sendProblem } from '../../idempotency/node/send-kept.ts'

export type NodeIdempotencyOptions = MiddlewareOptions<IncomingMessage>

export type UseKey = (request: IncomingMessage, response: ServerResponse) => Promise<boolean>

/** Returns a function that executes each request with a key once, and replays its response. */
export function idempotency(options: NodeIdempotencyOptions): UseKey {
  const keys = keyed(options)

  return async function useKey(request: ParsedRequest, response) {
    const start = await keys.start(request, request, request.body)
    if (start?.kind === 'replay') sendKept(response, start.response)
    else if (start?.kind === 'refuse') sendProblem(response, start.problem)
    else {
      if (start?.kind === 'execute') keys.hold(request, response, start)
      return true
    }
    return false
  }
}
