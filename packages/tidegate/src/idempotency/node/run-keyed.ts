/** What the middlewares over node:http share: Express, Fastify, Koa and node:http itself. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { checkFunction } from '../../options.ts'
import type { MaybePromise } from '../../stores/store.ts'
import { markCharged } from '../charged.ts'
import { createIdempotency, type Idempotency, KEY_FIELD, type Start } from '../idempotency.ts'
import { IDEMPOTENCY_PATH, type IdempotencyOptions } from '../idempotency-options.ts'
import { holdResponse } from './held-response.ts'
import { bodyOf } from './request-body.ts'

/** `Request` is the framework's own: an Express or Fastify request, a Koa or Hono context. */
export interface MiddlewareOptions<Request> extends IdempotencyOptions {
  /**
   * Returns the sender of a request, such as the id of its user or API key. Keys of different
   * senders are different keys. It must not be a text that changes with each try, such as a token.
   */
  readonly scope: (request: Request) => MaybePromise<string | undefined | null>
  /** Returns what identifies the content of a request. Default: its body. */
  readonly fingerprint?: (request: Request) => MaybePromise<string | Uint8Array>
  /** True leaves a request alone. */
  readonly skip?: (request: Request) => MaybePromise<boolean>
}

export interface Keyed<Request> {
  readonly idempotency: Idempotency
  /** Decides about a request; undefined if it is left alone. */
  start(
    request: Request,
    message: IncomingMessage,
    parsed: unknown,
  ): MaybePromise<Start | undefined>
  /** Holds the response of an execution until it is kept. */
  hold(request: object, response: ServerResponse, start: Extract<Start, { kind: 'execute' }>): void
}

export function keyed<Request>(options: MiddlewareOptions<Request>): Keyed<Request> {
  const { scope, fingerprint, skip, ...others } = options
  const idempotency = createIdempotency(others)
  const path = IDEMPOTENCY_PATH
  checkFunction(scope ?? 'missing', `${path}.scope`)
  checkFunction(fingerprint, `${path}.fingerprint`)
  checkFunction(skip, `${path}.skip`)
  const { responseBytesMax: bytesMax, keptHeaders } = idempotency.settings
  const start = async (request: Request, message: IncomingMessage, parsed: unknown) => {
    if ((await skip?.(request)) === true) return undefined
    const { method = '', headers } = message
    return idempotency.start({
      method,
      target: targetOf(message),
      keyField: headers[KEY_FIELD]?.toString(),
      scope: () => scope(request),
      body: (max) => fingerprint?.(request) ?? bodyOf(message, parsed, max),
    })
  }
  return {
    idempotency,
    start: (request, message, parsed) =>
      idempotency.appliesTo(message.method ?? '') ? start(request, message, parsed) : undefined,
    hold(request, response, { execution }) {
      if (execution.isRetry) markCharged(request)
      holdResponse(response, { execution, bytesMax, keptHeaders })
    },
  }
}

/** Express cuts the path where a router is mounted, and keeps the whole one. */
function targetOf(message: IncomingMessage & { readonly originalUrl?: string }): string {
  return message.originalUrl ?? message.url ?? ''
}
