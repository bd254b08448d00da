/** Middleware for Koa: `app.use(tidegate({ limit }))`. */

import type { Context, Middleware } from 'koa'
import { createGuard, type GuardDecision } from '../http/guard.ts'
import type { GuardOptions } from '../http/guard-options.ts'
import { evaluateWith } from '../http/node-adapter.ts'
import { PROBLEM_CONTENT_TYPE } from '../http/problem.ts'

export interface KoaOptions extends GuardOptions<Context> {
  /** Answers denied requests. Status and header fields are set, the body is the handler's. */
  readonly handler?: (context: Context, decision: GuardDecision) => unknown
}

/** Returns a middleware that answers denied requests with 429 and sets the rate limit fields. */
export function tidegate(options: KoaOptions): Middleware {
  const guard = createGuard(options, {
    remoteAddress: (context) => context.req.socket.remoteAddress,
    forwardedFor: (context) => context.get('x-forwarded-for'),
    trustedAddress: (context) => (context.app.proxy ? context.ip : undefined),
  })
  const { handler } = options

  return async function limitRequest(context, next) {
    const outcome = await evaluateWith(guard, context, context.res)
    if (outcome?.problem === undefined) return next()
    context.status = outcome.problem.status
    if (handler !== undefined) return handler(context, outcome.decision)
    context.set('Content-Type', PROBLEM_CONTENT_TYPE)
    context.body = JSON.stringify(outcome.problem)
  }
}
