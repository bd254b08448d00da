/**
 * One limiter under bench/outage.ts, in a process of its own: it gets a request every few
 * milliseconds, whether or not earlier ones were answered, and tells when each was.
 */

import { once } from 'node:events'
import { Agent, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { type Store as RateLimitStore, rateLimit } from 'express-rate-limit'
import { Redis, type RedisOptions } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import { createLimiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { machineNowMs } from '../../test/faults/machine-clock.ts'

/** What became of a request, on the axis of `machineNowMs`. */
export interface Answer {
  readonly startedMs: number
  /** None where there was no answer yet. */
  readonly answeredMs: number | undefined
  /** Whether Redis has counted it. */
  readonly isShared: boolean
}

/** Makes one request, and tells whether Redis has counted it. */
type Ask = () => Promise<boolean>

const INTERVAL_MS = 5
const WINDOW_MS = 60_000

/** High enough that everything is admitted. */
const POINTS = 1_000_000_000

const recommended = {
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  connectTimeout: 1_000,
  socketTimeout: 1_000,
  retryStrategy: () => Math.random() * 500,
} satisfies RedisOptions

const contenders: Readonly<Record<string, (url: string) => Promise<Ask>>> = {
  'express-rate-limit': (url) => expressRateLimit(new Redis(url)),
  'rate-limiter-flexible': (url) => flexible(new Redis(url)),
  'rate-limiter-flexible, no offline queue': (url) =>
    flexible(new Redis(url, { enableOfflineQueue: false })),
  tidegate: (url) => tidegate(new Redis(url)),
  'tidegate, recommended options': (url) => tidegate(new Redis(url, recommended)),
}

const [name = '', url = ''] = process.argv.slice(2)
const ask = await contenders[name]?.(url)
if (ask === undefined) throw new Error(`no such contender: ${name}`)
const answers: Answer[] = []
setInterval(() => void request(ask), INTERVAL_MS)
process.on('message', () => process.send?.(answers))
process.once('disconnect', () => process.exit())
process.send?.('ready')

async function request(ask: Ask): Promise<void> {
  const startedMs = machineNowMs()
  const at = answers.push({ startedMs, answeredMs: undefined, isShared: false }) - 1
  const isShared = await ask().catch(() => false)
  answers[at] = { startedMs, answeredMs: machineNowMs(), isShared }
}

async function connected(client: Redis): Promise<Redis> {
  client.on('error', () => undefined)
  await once(client, 'ready')
  return client
}

async function tidegate(client: Redis): Promise<Ask> {
  const limit = tokenBucket({ limit: POINTS, per: WINDOW_MS })
  const limiter = createLimiter({ limit, store: redisStore(await connected(client)) })
  return async () => (await limiter.check('ada')).degraded === null
}

/** The insurance has half of the points, which tells its answers from those of Redis. */
async function flexible(client: Redis): Promise<Ask> {
  const duration = WINDOW_MS / 1000
  const limiter = new RateLimiterRedis({
    storeClient: await connected(client),
    points: POINTS,
    duration,
    insuranceLimiter: new RateLimiterMemory({ points: POINTS / 2, duration }),
  })
  return async () => (await limiter.consume('ada')).remainingPoints > POINTS / 2
}

/** Over HTTP, as it is a middleware. Only requests that were counted have the headers. */
async function expressRateLimit(client: Redis): Promise<Ask> {
  const app = express()
  const store = countingStore(await connected(client))
  app.use(rateLimit({ windowMs: WINDOW_MS, limit: POINTS, passOnStoreError: true, store }))
  app.get('/', (_request, response) => void response.send('ok'))
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const agent = new Agent({ keepAlive: true })
  return () =>
    new Promise((resolve, reject) => {
      const sent = get({ port, host: '127.0.0.1', agent }, (response) => {
        response.resume()
        response.on('end', () => resolve('x-ratelimit-limit' in response.headers))
      })
      sent.on('error', reject)
    })
}

/** As its documentation says to write a store; rate-limit-redis does the same with a script. */
function countingStore(client: Redis): RateLimitStore {
  const script = `local hits = redis.call('INCR', KEYS[1])
    if hits == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
    return { hits, redis.call('PTTL', KEYS[1]) }`
  return {
    async increment(key) {
      const reply = await client.eval(script, 1, `erl:${key}`, WINDOW_MS)
      const [totalHits = 0, ttlMs = 0] = Array.isArray(reply) ? reply.map(Number) : []
      return { totalHits, resetTime: new Date(Date.now() + ttlMs) }
    },
    decrement: async (key) => void (await client.decr(`erl:${key}`)),
    resetKey: async (key) => void (await client.del(`erl:${key}`)),
  }
}
