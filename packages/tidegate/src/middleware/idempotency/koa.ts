/** Idempotency keys for Koa: `app.use(idempotency({ store, scope }))`. */

import { Stream } from 'node:stream'
import type { Context, Middleware } from 'koa'
import type { Execution } from '../../idempotency/execution.ts'
import { fieldValues, keptFields } from '../../idempotency/kept-fields.ts'
import { keyed, type MiddlewareOptions } from '../../idempotency/node/run-keyed.ts'
import { problemFields } from '../../idempotency/problem.ts'

export type KoaIdempotencyOptions = MiddlewareOptions<Context>

/** Returns a middleware that executes each request with a key once, and replays its response. */
export function idempotency(options: KoaIdempotencyOptions): Middleware {
  const keys = keyed(options)
  const { keptHeaders } = keys.idempotency.settings

  return async function useKey(context, next) {
    const { body: parsed } = context.request as { readonly body?: unknown }
    const start = await keys.start(context, context.req, parsed)
    if (start?.kind === 'replay') {
      const { status, headers, body } = start.response
      context.status = status
      for (const [name, value] of fieldValues(headers)) context.set(name, value)
      context.set('idempotent-replayed', 'true')
      // Koa would set a type of its own for a body.
      const type = context.response.get('content-type')
      context.body = body.length === 0 ? null : Buffer.from(body)
      if (body.length > 0 && type === '') context.remove('content-type')
      context.status = status
      return
    }
    if (start?.kind === 'refuse') {
      context.status = start.problem.status
      context.set(problemFields(start.problem))
      context.body = JSON.stringify(start.problem)
      return
    }
    if (start?.kind !== 'execute') return next()
    keys.hold(context, context.res, start)
    await next()
    // Koa does not respond to a client that has disconnected.
    if (!context.writable) await keep(context, start.execution, keptHeaders)
  }
}

async function keep(
  context: Context,
  execution: Execution,
  keptHeaders: ReadonlySet<string>,
): Promise<void> {
  const { body, status } = context
  if (body instanceof Stream || body instanceof ReadableStream) {
    await execution.release('unknown')
    return
  }
  const headers = keptFields(Object.entries(context.response.headers), keptHeaders)
  await execution.finish({ status, headers, body: bytesOf(body) })
}

function bytesOf(body: unknown): Buffer {
  if (body === undefined || body === null) return Buffer.alloc(0)
  if (typeof body === 'string') return Buffer.from(body)
  return body instanceof Uint8Array ? Buffer.from(body) : Buffer.from(JSON.stringify(body))
}
