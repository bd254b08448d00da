/** Middleware for Express 4 and 5: `app.use(tidegate({ limit }))`. */

import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { createGuard, type GuardDecision, type GuardOutcome } from '../http/guard.ts'
import type { GuardOptions, MaybePromise } from '../http/guard-options.ts'
import { errorOf, evaluateWith, sendProblem } from '../http/node-adapter.ts'
import type { Problem } from '../http/problem.ts'

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
  const deny = async (
    request: Request,
    response: Response,
    next: NextFunction,
    decision: GuardDecision,
    problem: Problem,
  ) => {
    response.statusCode = problem.status
    if (handler === undefined) sendProblem(response, problem)
    else await handler(request, response, next, decision)
  }
  const proceed = (
    request: Request,
    response: Response,
    next: NextFunction,
    outcome: GuardOutcome | undefined,
  ) => {
    if (outcome?.problem === undefined) next()
    else deny(request, response, next, outcome.decision, outcome.problem).catch(failure(next))
  }

  // Without promises and closures: in memory they would take more time than the decision.
  return function limitRequest(request, response, next) {
    let outcome: MaybePromise<GuardOutcome | undefined>
    try {
      outcome = evaluateWith(guard, request, response)
    } catch (error) {
      failure(next)(error)
      return
    }
    if (outcome instanceof Promise) proceedLater(request, response, next, outcome)
    else proceed(request, response, next, outcome)
  }

  function proceedLater(
    request: Request,
    response: Response,
    next: NextFunction,
    outcome: Promise<GuardOutcome | undefined>,
  ): void {
    outcome.then((known) => proceed(request, response, next, known), failure(next))
  }
}

function failure(next: NextFunction) {
  return (error: unknown) => next(errorOf(error))
}
