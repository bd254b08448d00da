/** Middleware for Hono: `app.use(tidegate({ limit }))`. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context, MiddlewareHandler } from 'hono'
import { createGuard, type GuardDecision } from '../http/guard.ts'
import type { GuardOptions } from '../http/guard-options.ts'
import type { ResponseHead } from '../http/headers.ts'
import { settleWhenSent } from '../http/node-adapter.ts'
import { PROBLEM_CONTENT_TYPE } from '../http/problem.ts'

export interface HonoOptions extends GuardOptions<Context> {
  /** Answers denied requests. Status and header fields are set, the body is the handler's. */
  readonly handler?: (context: Context, decision: GuardDecision) => Response | Promise<Response>
  /** The client's address on other runtimes than Node. Default: that of @hono/node-server. */
  readonly remoteAddress?: (context: Context) => string | undefined
}

/** The values that @hono/node-server puts into the environment. */
interface NodeBindings {
  readonly incoming?: IncomingMessage
  readonly outgoing?: ServerResponse
}

/** Returns a middleware that answers denied requests with 429 and sets the rate limit fields. */
export function tidegate(options: HonoOptions): MiddlewareHandler {
  const source = {
    remoteAddress: (context: Context) =>
      options.remoteAddress?.(context) ?? bindings(context).incoming?.socket.remoteAddress,
    forwardedFor: (context: Context) => context.req.header('x-forwarded-for'),
    hasAddress: (context: Context) => bindings(context).incoming !== undefined,
  }
  const guard = createGuard(options, source, { remoteAddress: 'function' })
  const { handler } = options

  return async function limitRequest(context, next) {
    const outcome = await guard.evaluate(context)
    if (outcome?.problem === undefined) {
      await next()
      // Only now, because a handler may return a response that knows nothing of the context's.
      outcome?.writeHead(headOf(context))
      const { outgoing } = bindings(context)
      if (outgoing === undefined) outcome?.settle?.(context.res.status)
      else if (outcome !== undefined) settleWhenSent(outcome, outgoing)
      return
    }
    outcome.writeHead(headOf(context))
    context.status(outcome.problem.status)
    if (handler !== undefined) return handler(context, outcome.decision)
    context.header('Content-Type', PROBLEM_CONTENT_TYPE)
    return context.body(JSON.stringify(outcome.problem))
  }
}

function bindings(context: Context): NodeBindings {
  return context.env ?? {}
}

function headOf(context: Context): ResponseHead {
  return {
    getHeader: (name) => context.res.headers.get(name) ?? undefined,
    setHeader(name, value) {
      try {
        context.res.headers.set(name, value)
      } catch {
        // The header fields of a response of `fetch` cannot be changed, those of its copy can.
        context.res = new Response(context.res.body, context.res)
        context.res.headers.set(name, value)
      }
    },
  }
}
