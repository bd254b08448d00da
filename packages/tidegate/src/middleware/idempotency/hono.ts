/** Idempotency keys for Hono, on any runtime: `app.use(idempotency({ store, scope }))`. */

import type { Context, MiddlewareHandler } from 'hono'
import { markCharged } from '../../idempotency/charged.ts'
import type { Execution } from '../../idempotency/execution.ts'
import { createIdempotency, KEY_FIELD, REPLAYED_FIELD } from '../../idempotency/idempotency.ts'
import type { IdempotencySettings } from '../../idempotency/idempotency-options.ts'
import { keptFields } from '../../idempotency/kept-fields.ts'
import type { MiddlewareOptions } from '../../idempotency/node/run-keyed.ts'
import { type IdempotencyProblem, problemFields } from '../../idempotency/problem.ts'
import type { KeptResponse } from '../../idempotency/stored-response.ts'
import { readUpTo } from '../../idempotency/web/read-up-to.ts'

export type HonoIdempotencyOptions = MiddlewareOptions<Context>

/** Returns a middleware that executes each request with a key once, and replays its response. */
export function idempotency(options: HonoIdempotencyOptions): MiddlewareHandler {
  const { scope, fingerprint, skip, ...others } = options
  const keys = createIdempotency(others)

  return async function useKey(context, next) {
    const { method, url } = context.req
    if (!keys.appliesTo(method) || (await skip?.(context)) === true) return next()
    const { pathname, search } = new URL(url)
    const start = await keys.start({
      method,
      target: pathname + search,
      keyField: context.req.header(KEY_FIELD),
      scope: () => scope(context),
      body: (bytesMax) => fingerprint?.(context) ?? bodyOf(context, bytesMax),
    })
    if (start.kind === 'pass') return next()
    if (start.kind === 'replay') return replayed(start.response)
    if (start.kind === 'refuse') return refused(start.problem)
    const { execution } = start
    if (execution.isRetry) markCharged(context)
    await next()
    context.res = await kept(context.res, execution, keys.settings)
    return undefined
  }
}

/** Reads the body, and puts it back for the handler. */
async function bodyOf(context: Context, bytesMax: number): Promise<Uint8Array | undefined> {
  const { raw } = context.req
  if (Number(context.req.header('content-length') ?? 0) > bytesMax) return undefined
  const { body } = raw
  if (body === null) return new Uint8Array()
  const read = await readUpTo(body, bytesMax)
  if (!(read instanceof Uint8Array)) return undefined
  const { method, headers, signal } = raw
  context.req.raw = new Request(raw.url, { method, headers, signal, body: read })
  return read
}

async function kept(
  response: Response,
  execution: Execution,
  { responseBytesMax, keptHeaders }: IdempotencySettings,
): Promise<Response> {
  const { status, headers, body } = response
  if (/^text\/event-stream\b/i.test(headers.get('content-type') ?? '')) {
    await execution.finishUnkept(status, 'streamed')
    return response
  }
  const read = body === null ? new Uint8Array() : await readUpTo(body, responseBytesMax)
  if (!(read instanceof Uint8Array)) {
    await execution.finishUnkept(status, 'too-large')
    return new Response(read, response)
  }
  const fields = keptFields(headers, keptHeaders)
  const finished = await execution.finish({ status, headers: fields, body: read })
  if (finished.kind === 'other') return replayed(finished.response)
  if (finished.kind === 'refuse') return refused(finished.problem)
  return new Response(body === null ? null : read, response)
}

function replayed({ status, headers, body }: KeptResponse): Response {
  const fields = new Headers({ [REPLAYED_FIELD]: 'true' })
  for (let at = 0; at < headers.length; at += 2) {
    fields.append(headers[at] as string, headers[at + 1] as string)
  }
  return new Response(body.length === 0 ? null : body.slice(), { status, headers: fields })
}

function refused(problem: IdempotencyProblem): Response {
  const { status } = problem
  return new Response(JSON.stringify(problem), { status, headers: problemFields(problem) })
}
