/**
 * A stand-in for the REST interface of Upstash in front of a real Redis server: commands as JSON
 * arrays to `/`, several of them to `/pipeline`, a bearer token, and replies in base64 on request.
 * The protocol: https://upstash.com/docs/redis/features/restapi
 */

import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { Redis } from 'ioredis'
import type { RedisAddress } from './redis.ts'

export interface UpstashServer {
  readonly url: string
  readonly token: string
  stop(): Promise<void>
}

type Answer = { readonly result: unknown } | { readonly error: string }

const TOKEN = 'token-of-the-test'

export async function startUpstash({ host, port }: RedisAddress): Promise<UpstashServer> {
  const redis = new Redis({ host, port })
  const server = createServer(async (request, response) => {
    const { status, body } = await answer(redis, request)
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: TOKEN,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      redis.disconnect()
    },
  }
}

async function answer(redis: Redis, request: IncomingMessage) {
  if (request.headers.authorization !== `Bearer ${TOKEN}`) {
    return { status: 401, body: { error: 'WRONGPASS invalid or missing auth token' } }
  }
  const isEncoded = request.headers['upstash-encoding'] === 'base64'
  const body = await json(request)
  if (request.url === '/pipeline') {
    const commands = body as string[][]
    const answers = commands.map((command) => run(redis, command, isEncoded))
    return { status: 200, body: await Promise.all(answers) }
  }
  const single = await run(redis, body as string[], isEncoded)
  return { status: 'error' in single ? 400 : 200, body: single }
}

async function run(redis: Redis, command: string[], isEncoded: boolean): Promise<Answer> {
  const [name = '', ...args] = command
  try {
    const result = await redis.call(name, ...args)
    return { result: isEncoded ? encoded(result) : result }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

/** Integers, nil and OK are not encoded. */
function encoded(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(encoded)
  return typeof reply === 'string' && reply !== 'OK' ? Buffer.from(reply).toString('base64') : reply
}
