/** The Express servers under bench/middleware.ts. */

import type { AddressInfo } from 'node:net'
import express, { type Request, type RequestHandler } from 'express'
import { rateLimit } from 'express-rate-limit'
import { Redis } from 'ioredis'
import { type RedisReply, RedisStore } from 'rate-limit-redis'
import { tokenBucket } from 'tidegate'
import { tidegate } from 'tidegate/express'
import { redisStore } from 'tidegate/redis'
import { LIMIT, type MiddlewarePlan, WINDOW_MS } from './plan.ts'

export function serveExpress({ limiter, redisUrl }: MiddlewarePlan): Promise<number> {
  const client = redisUrl === undefined ? undefined : new Redis(redisUrl)
  const app = express()
  if (limiter !== 'none') app.use(limiter === 'tidegate' ? ours(client) : theirs(client))
  app.get('/api/resource', (_request, response) => {
    response.send('ok')
  })
  return new Promise((resolve) => {
    const server = app.listen(0, '127.0.0.1', () => {
      resolve((server.address() as AddressInfo).port)
    })
  })
}

function ours(client: Redis | undefined): RequestHandler {
  const limit = tokenBucket({ limit: LIMIT, per: `${WINDOW_MS}ms` })
  return tidegate({ limit, ...(client && { store: redisStore(client), key: keyOf }) })
}

/** The peer, with both kinds of headers like ours. */
function theirs(client: Redis | undefined): RequestHandler {
  const options = { standardHeaders: 'draft-8', legacyHeaders: true } as const
  const shared = client && {
    keyGenerator: keyOf,
    store: new RedisStore({
      sendCommand: (command: string, ...args: string[]) =>
        client.call(command, ...args) as Promise<RedisReply>,
    }),
  }
  return rateLimit({ windowMs: WINDOW_MS, limit: LIMIT, ...options, ...shared })
}

function keyOf({ headers }: Request): string {
  return String(headers['x-api-key'])
}
