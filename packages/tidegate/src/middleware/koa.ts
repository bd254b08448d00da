/** Middleware for Koa: `app.use(tidegate({ limit }))`. */

import type { Context, Middleware } from 'koa'
import { createGuard, type GuardDecision } from '../http/guard.ts'
import type { GuardOptions } from '../http/guard-options.ts'
import { judgeWith } from '../http/node-response.ts'
import { PROBLEM_CONTENT_TYPE } from '../http/problem.ts'

export interface KoaOptions extends GuardOptions<Context> {
  /** Answers denied requests. Status and header fields are set, the body is the handler's. */
  readonly handler?: (context: Context, decision: GuardDecision) => unknown
}

export function tidegate(options: KoaOptions): Middleware {
  const guard = createGuard(options, {
    remoteAddress: (context) => context.req.socket.remoteAddress,
    forwardedFor: (context) => context.get('x-forwarded-for'),
    trustedAddress: (context) => (context.app.proxy ? context.ip : undefined),
  })
  const { handler } = options

  return async function limitRequest(context, next) {
    const verdict = await judgeWith(guard, context, context.res)
    if (verdict?.problem === undefined) return next()
    context.status = verdict.problem.status
    if (handler !== undefined) return handler(context, verdict.decision)
    context.set('Content-Type', PROBLEM_CONTENT_TYPE)
    context.body = JSON.stringify(verdict.problem)
  }
}
