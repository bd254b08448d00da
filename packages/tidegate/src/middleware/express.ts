/** Middleware for Express 4 and 5: `app.use(tidegate({ limit }))`. */

import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { createGuard, type GuardDecision } from '../http/guard.ts'
import type { GuardOptions } from '../http/guard-options.ts'
import { evaluateWith, sendProblem } from '../http/node-adapter.ts'

export interface ExpressOptions extends GuardOptions<Request> {
  /** Answers denied requests. Status and header fields are set, the body is the handler's. */
  readonly handler?: (
    request: Request,
    response: Response,
    next: NextFunction,
    decision: GuardDecision,
  ) => unknown
}

/** Returns a middleware that answers denied requests with 429 and sets the rate limit fields. */
export function tidegate(options: ExpressOptions): RequestHandler {
  const guard = createGuard(options, {
    remoteAddress: (request) => request.socket.remoteAddress,
    forwardedFor: (request) => request.get('x-forwarded-for'),
    trustedAddress: (request) => (request.app.get('trust proxy') ? request.ip : undefined),
  })
  const { handler } = options

  return async function limitRequest(request, response, next) {
    try {
      const outcome = await evaluateWith(guard, request, response)
      if (outcome?.problem !== undefined) {
        response.statusCode = outcome.problem.status
        if (handler === undefined) sendProblem(response, outcome.problem)
        else await handler(request, response, next, outcome.decision)
        return
      }
    } catch (error) {
      next(error)
      return
    }
    next()
  }
}
