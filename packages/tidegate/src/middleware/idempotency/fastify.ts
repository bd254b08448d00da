/**
 * Idempotency keys for Fastify: `await app.register(idempotency, { store, scope })`. It runs before
 * the handler, when the body is parsed and the user is known. Limits that are registered after it
 * count requests with a key after it, so that replays are free.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { KEY_FIELD } from '../../idempotency/idempotency.ts'
import { fieldValues } from '../../idempotency/kept-fields.ts'
import { rememberKeys } from '../../idempotency/node/keyed-requests.ts'
import { keyed, type MiddlewareOptions } from '../../idempotency/node/run-keyed.ts'
import { type IdempotencyProblem, problemFields } from '../../idempotency/problem.ts'
import type { KeptResponse } from '../../idempotency/stored-response.ts'

export type FastifyIdempotencyOptions = MiddlewareOptions<FastifyRequest>

/** The plugin, for `app.register`. It executes each request with a key once. */
export async function idempotency(
  app: FastifyInstance,
  options: FastifyIdempotencyOptions,
): Promise<void> {
  const keys = keyed(options)
  const { idempotency: core } = keys
  rememberKeys(app, (method, headers) => {
    return core.appliesTo(method) && (core.settings.isRequired || headers[KEY_FIELD] !== undefined)
  })
  app.addHook('preHandler', async function useKey(request, reply) {
    const start = await keys.start(request, request.raw, request.body)
    if (start?.kind === 'replay') return sendKept(reply, start.response)
    if (start?.kind === 'refuse') return sendProblem(reply, start.problem)
    if (start?.kind === 'execute') keys.hold(request, reply.raw, start)
    return undefined
  })
}

// Like fastify-plugin: the hooks are for the app that registers, not for a child of it.
Object.assign(idempotency, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tidegate-idempotency',
})

function sendKept(reply: FastifyReply, { status, headers, body }: KeptResponse): FastifyReply {
  for (const [name, value] of fieldValues(headers)) reply.header(name, value)
  reply.code(status).header('idempotent-replayed', 'true')
  return body.length === 0 ? reply.send() : reply.send(Buffer.from(body))
}

function sendProblem(reply: FastifyReply, problem: IdempotencyProblem): FastifyReply {
  return reply.code(problem.status).headers(problemFields(problem)).send(JSON.stringify(problem))
}
