/**
 * One process of a burst. It has every contender ready, and on a message calls one of them for the
 * same key many times at once. Middlewares are called over HTTP. Started by processes.ts.
 */

import { once } from 'node:events'
import { Agent, createServer, get, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import fastifyRateLimit from '@fastify/rate-limit'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import fastify from 'fastify'
import { Redis } from 'ioredis'
import { type RedisReply, RedisStore } from 'rate-limit-redis'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import {
  createLimiter,
  fixedWindow,
  type Limiter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { type Burst, type ContenderName, LIMIT, PERIOD_S } from './processes.ts'

/** Resolves to whether the request was admitted. */
type Ask = (key: string) => Promise<boolean>

/** Long, because a decision of the fallback on a busy machine would be another test. */
const DEADLINE_MS = 5_000

const client = new Redis(process.argv[2] ?? '')
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
const contenders: Record<ContenderName, Ask> = {
  ...ours(),
  ...flexible(),
  'express-rate-limit, rate-limit-redis': await expressRateLimit('redis'),
  'express-rate-limit, MemoryStore': await expressRateLimit('memory'),
  '@fastify/rate-limit, Redis': await fastifyLimit('redis'),
  '@fastify/rate-limit, LocalStore': await fastifyLimit('memory'),
  'GET, then INCR': readThenWrite,
}

process.on('message', async ({ contender, key, requests, startAtMs }: Burst) => {
  const ask = contenders[contender]
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, startAtMs - Date.now())))
  const answers = await Promise.all(Array.from({ length: requests }, () => ask(key)))
  process.send?.(answers.filter(Boolean).length)
})
process.once('disconnect', () => process.exit())
process.send?.('ready')

function ours() {
  const store = redisStore(client)
  const options = { limit: LIMIT, per: `${PERIOD_S}s` } as const
  const ask =
    (limiter: Limiter): Ask =>
    async (key) => {
      const { allowed, degraded } = await limiter.check(key)
      if (degraded !== null) throw new Error(`decided without Redis: ${degraded.reason}`)
      return allowed
    }
  const deadlineMs = DEADLINE_MS
  return {
    'Tidegate, tokenBucket': ask(
      createLimiter({ limit: tokenBucket(options), store, deadlineMs, name: 'bucket' }),
    ),
    'Tidegate, slidingWindow': ask(
      createLimiter({ limit: slidingWindow(options), store, deadlineMs, name: 'window' }),
    ),
    'Tidegate, slidingLog': ask(
      createLimiter({ limit: slidingLog(options), store, deadlineMs, name: 'log' }),
    ),
    'Tidegate, fixedWindow': ask(
      createLimiter({ limit: fixedWindow(options), store, deadlineMs, name: 'fixed' }),
    ),
    'Tidegate, memory': ask(createLimiter({ limit: tokenBucket(options) })),
  }
}

function flexible() {
  const options = { points: LIMIT, duration: PERIOD_S }
  const ask =
    (limiter: RateLimiterMemory | RateLimiterRedis): Ask =>
    async (key) => {
      try {
        await limiter.consume(key)
        return true
      } catch (refusal) {
        if (refusal instanceof Error) throw refusal
        return false
      }
    }
  return {
    'rate-limiter-flexible, Redis': ask(new RateLimiterRedis({ ...options, storeClient: client })),
    'rate-limiter-flexible, memory': ask(new RateLimiterMemory(options)),
  }
}

async function expressRateLimit(store: 'redis' | 'memory'): Promise<Ask> {
  const sendCommand = (command: string, ...args: string[]) =>
    client.call(command, ...args) as Promise<RedisReply>
  const app = express()
  app.use(
    rateLimit({
      windowMs: PERIOD_S * 1_000,
      limit: LIMIT,
      keyGenerator: (request) => String(request.headers['x-key']),
      ...(store === 'redis' && { store: new RedisStore({ sendCommand }) }),
    }),
  )
  app.get('/', (_request, response) => void response.end())
  return askByHttp(createServer(app))
}

async function fastifyLimit(store: 'redis' | 'memory'): Promise<Ask> {
  const app = fastify()
  await app.register(fastifyRateLimit, {
    max: LIMIT,
    timeWindow: PERIOD_S * 1_000,
    keyGenerator: (request) => String(request.headers['x-key']),
    ...(store === 'redis' && { redis: client }),
  })
  app.get('/', () => '')
  await app.ready()
  return askByHttp(app.server)
}

async function askByHttp(server: Server): Promise<Ask> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return (key) =>
    new Promise((resolve, reject) => {
      const request = get({ port, agent, headers: { 'x-key': key } }, (response) => {
        const { statusCode = 0 } = response
        response.resume().once('end', () => {
          if (statusCode === 200 || statusCode === 429) resolve(statusCode === 200)
          else reject(new Error(`answered with ${statusCode}`))
        })
      })
      request.once('error', reject)
    })
}

/** The error that a limiter must not make: others read the same value between the two commands. */
async function readThenWrite(key: string): Promise<boolean> {
  const used = Number((await client.get(key)) ?? 0)
  if (used >= LIMIT) return false
  await client.incr(key)
  return true
}
