/** Middleware for Express 4 and 5: `app.use(tidegate({ limit }))`. */

import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { createGuard, type GuardDecision } from '../http/guard.ts'
import type { GuardOptions } from '../http/guard-options.ts'
import { judgeWith, sendProblem } from '../http/node-response.ts'

export interface ExpressOptions extends GuardOptions<Request> {
  /** Answers denied requests. Status and header fields are set, the body is the handler's. */
  readonly handler?: (
    request: Request,
    response: Response,
    next: NextFunction,
    decision: GuardDecision,
  ) => unknown
}

export function tidegate(options: ExpressOptions): RequestHandler {
  const guard = createGuard(options, {
    remoteAddress: (request) => request.socket.remoteAddress,
    forwardedFor: (request) => request.get('x-forwarded-for'),
    trustedAddress: (request) => (request.app.get('trust proxy') ? request.ip : undefined),
  })
  const { handler } = options

  return async function limitRequest(request, response, next) {
    try {
      const verdict = await judgeWith(guard, request, response)
      if (verdict?.problem !== undefined) {
        response.statusCode = verdict.problem.status
        if (handler === undefined) sendProblem(response, verdict.problem)
        else await handler(request, response, next, verdict.decision)
        return
      }
    } catch (error) {
      next(error)
      return
    }
    next()
  }
}
