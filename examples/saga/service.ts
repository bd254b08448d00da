/**
 * A service of the saga: a server on a free port that executes each request once by its key. It
 * prints its port, and ends with its parent.
 */

import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from 'ioredis'
import { redisIdempotencyStore } from 'tidegate/idempotency'
import { idempotency } from 'tidegate/idempotency/node'

export interface Call {
  readonly path: string
  readonly key: string
  readonly body: Readonly<Record<string, unknown>>
  header(name: string): string | undefined
}

export interface Reply {
  readonly status: number
  readonly body: object
}

export const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379')

/** Short, so that the example does not wait long for a coordinator that was killed. */
const LEASE = '500ms'

export function serve(name: string, handle: (call: Call) => Promise<Reply>): void {
  const useKey = idempotency({
    store: redisIdempotencyStore(redis, { prefix: `saga:${name}:`, deadlineMs: 2_000 }),
    scope: () => 'saga',
    required: true,
    lease: LEASE,
    wait: '10s',
  })
  const server = createServer(async (request, response) => {
    if (!(await useKey(request, response))) return
    const { status, body } = await handle(await callOf(request)).catch(failed)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
  process.once('disconnect', () => process.exit())
}

async function callOf(request: IncomingMessage): Promise<Call> {
  let text = ''
  for await (const chunk of request) text += chunk
  const header = (name: string) => request.headers[name]?.toString()
  const { url: path = '/' } = request
  return { path, key: header('idempotency-key') ?? '', body: JSON.parse(text || '{}'), header }
}

function failed(error: unknown): Reply {
  return { status: 503, body: { error: String(error) } }
}
