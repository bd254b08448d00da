/** The Fastify servers under bench/middleware.ts. */

import type { AddressInfo } from 'node:net'
import rateLimit from '@fastify/rate-limit'
import { type FastifyRequest, fastify } from 'fastify'
import { Redis } from 'ioredis'
import { tokenBucket } from 'tidegate'
import { tidegate } from 'tidegate/fastify'
import { redisStore } from 'tidegate/redis'
import { LIMIT, type MiddlewarePlan, WINDOW_MS } from './plan.ts'

export async function serveFastify({ limiter, redisUrl }: MiddlewarePlan): Promise<number> {
  const client = redisUrl === undefined ? undefined : new Redis(redisUrl)
  const app = fastify()
  if (limiter === 'tidegate') {
    const limit = tokenBucket({ limit: LIMIT, per: `${WINDOW_MS}ms` })
    const shared = client && { store: redisStore(client), key: keyOf }
    // The peer sends X-RateLimit headers only, so ours does too.
    await app.register(tidegate, { limit, headers: 'x-ratelimit', ...shared })
  } else if (limiter === 'peer') {
    const shared = client && { redis: client, keyGenerator: keyOf }
    await app.register(rateLimit, { max: LIMIT, timeWindow: WINDOW_MS, ...shared })
  }
  app.get('/api/resource', () => 'ok')
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}

function keyOf({ headers }: FastifyRequest): string {
  return String(headers['x-api-key'])
}
