/** Idempotency keys for Express 4 and 5: `app.use(idempotency({ store, scope }))`. */

import type { Request, RequestHandler } from 'express'
import { errorOf } from '../../http/node-adapter.ts'
import { keyed, type MiddlewareOptions } from '../../idempotency/node/run-keyed.ts'
import { sendKept, sendProblem } from '../../idempotency/node/send-kept.ts'

export type ExpressIdempotencyOptions = MiddlewareOptions<Request>

/** Returns a middleware that executes each request with a key once, and replays its response. */
export function idempotency(options: ExpressIdempotencyOptions): RequestHandler {
  const keys = keyed(options)

  return async function useKey(request, response, next) {
    try {
      const start = await keys.start(request, request, request.body)
      if (start?.kind === 'replay') return sendKept(response, start.response)
      if (start?.kind === 'refuse') return sendProblem(response, start.problem)
      if (start?.kind === 'execute') keys.hold(request, response, start)
    } catch (error) {
      return next(errorOf(error))
    }
    next()
  }
}
