/** Middleware for Hono: `app.use(tidegate({ limit }))`. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context, MiddlewareHandler } from 'hono'
import { createGuard, type GuardDecision } from '../http/guard.ts'
import type { GuardOptions } from '../http/guard-options.ts'
import type { ResponseHead } from '../http/headers.ts'
import { settleWhenSent } from '../http/node-response.ts'
import { PROBLEM_CONTENT_TYPE } from '../http/problem.ts'

export interface HonoOptions extends GuardOptions<Context> {
  /** Answers denied requests. Status and header fields are set, the body is the handler's. */
  readonly handler?: (context: Context, decision: GuardDecision) => Response | Promise<Response>
  /** The client's address on other runtimes than Node. Default: that of @hono/node-server. */
  readonly remoteAddress?: (context: Context) => string | undefined
}

/** What @hono/node-server puts into the environment. */
interface NodeBindings {
  readonly incoming?: IncomingMessage
  readonly outgoing?: ServerResponse
}

export function tidegate(options: HonoOptions): MiddlewareHandler {
  const source = {
    remoteAddress: (context: Context) =>
      options.remoteAddress?.(context) ?? bindings(context).incoming?.socket.remoteAddress,
    forwardedFor: (context: Context) => context.req.header('x-forwarded-for'),
    tellsAddress: (context: Context) => bindings(context).incoming !== undefined,
  }
  const guard = createGuard(options, source, { remoteAddress: 'function' })
  const { handler } = options

  return async function limitRequest(context, next) {
    const verdict = await guard.judge(context)
    if (verdict?.problem === undefined) {
      await next()
      // Only now, because a handler may return a response that knows nothing of the context's.
      verdict?.writeHead(headOf(context))
      const { outgoing } = bindings(context)
      if (outgoing === undefined) verdict?.settle?.(context.res.status)
      else if (verdict !== undefined) settleWhenSent(verdict, outgoing)
      return
    }
    verdict.writeHead(headOf(context))
    context.status(verdict.problem.status)
    if (handler !== undefined) return handler(context, verdict.decision)
    context.header('Content-Type', PROBLEM_CONTENT_TYPE)
    return context.body(JSON.stringify(verdict.problem))
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
