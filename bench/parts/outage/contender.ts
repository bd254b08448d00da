/**
 * One limiter of bench/outage.ts, in a separate process. It gets a request every 5 ms, also while
 * earlier ones wait, and reports the time of each response.
 */

import { once } from 'node:events'
import { Agent, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type Request } from 'express'
import { rateLimit } from 'express-rate-limit'
import { Redis, type RedisOptions } from 'ioredis'
import { type RedisReply, RedisStore } from 'rate-limit-redis'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import { createLimiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { machineNowMs } from '../../../test/support/faults/machine-clock.ts'
import type { outageNames, RequestResult } from './figures.ts'

/** Makes one request for a key; resolves to whether Redis counted it. */
type Check = (key: string) => Promise<boolean>

const INTERVAL_MS = 5
const WINDOW_MS = 60_000

/** Enough that no key is hot, because hot keys are decided without Redis. */
const KEYS = 1_000

/** High enough that every request is admitted. */
const POINTS = 1_000_000_000

const recommended = {
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  connectTimeout: 1_000,
  socketTimeout: 1_000,
  retryStrategy: () => Math.random() * 500,
} satisfies RedisOptions

const contenders: Readonly<Record<(typeof outageNames)[number], (url: string) => Promise<Check>>> =
  {
    Tidegate: (url) => tidegate(new Redis(url)),
    'Tidegate, recommended options': (url) => tidegate(new Redis(url, recommended)),
    'rate-limiter-flexible': (url) => flexible(new Redis(url)),
    'rate-limiter-flexible, no offline queue': (url) =>
      flexible(new Redis(url, { enableOfflineQueue: false })),
    'express-rate-limit': (url) => expressRateLimit(new Redis(url)),
  }

const [name, url = ''] = process.argv.slice(2)
const check = await contenders[name as keyof typeof contenders](url)
const results: RequestResult[] = []
setInterval(() => void request(check), INTERVAL_MS)
process.on('message', () => process.send?.(results))
process.once('disconnect', () => process.exit())
process.send?.('ready')

async function request(check: Check): Promise<void> {
  const startedMs = machineNowMs()
  const at = results.push({ startedMs, respondedMs: undefined, isShared: false }) - 1
  const isShared = await check(`key-${at % KEYS}`).catch(() => false)
  results[at] = { startedMs, respondedMs: machineNowMs(), isShared }
}

async function connected(client: Redis): Promise<Redis> {
  client.on('error', () => undefined)
  await once(client, 'ready')
  return client
}

async function tidegate(client: Redis): Promise<Check> {
  const limit = tokenBucket({ limit: POINTS, per: `${WINDOW_MS}ms` })
  const limiter = createLimiter({ limit, store: redisStore(await connected(client)) })
  return async (key) => (await limiter.check(key)).degraded === null
}

/** The insurance limiter has half of the points, which distinguishes its results from Redis. */
async function flexible(client: Redis): Promise<Check> {
  const duration = WINDOW_MS / 1000
  const limiter = new RateLimiterRedis({
    storeClient: await connected(client),
    points: POINTS,
    duration,
    insuranceLimiter: new RateLimiterMemory({ points: POINTS / 2, duration }),
  })
  return async (key) => (await limiter.consume(key)).remainingPoints > POINTS / 2
}

/** Called over HTTP, because it is a middleware. Only counted requests have the headers. */
async function expressRateLimit(client: Redis): Promise<Check> {
  const app = express()
  await connected(client)
  const store = new RedisStore({
    sendCommand: (command: string, ...args: string[]) =>
      client.call(command, ...args) as Promise<RedisReply>,
  })
  const keyGenerator = ({ headers }: Request) => String(headers['x-api-key'])
  const options = { windowMs: WINDOW_MS, limit: POINTS, keyGenerator, store }
  app.use(rateLimit({ ...options, passOnStoreError: true }))
  app.get('/', (_request, response) => void response.send('ok'))
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const agent = new Agent({ keepAlive: true })
  return (key) =>
    new Promise((resolve, reject) => {
      const headers = { 'x-api-key': key }
      const sent = get({ port, host: '127.0.0.1', agent, headers }, (response) => {
        response.resume()
        response.on('end', () => resolve('x-ratelimit-limit' in response.headers))
      })
      sent.on('error', reject)
    })
}
