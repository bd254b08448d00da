/** Limiters on Redis whose cost per decision is measured, all with the same kind of client. */

import type { Cluster, Redis } from 'ioredis'
import { type RedisReply, RedisStore } from 'rate-limit-redis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import {
  createLimiter,
  fixedWindow,
  type Limit,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tidegate'
import { type RedisStoreOptions, redisStore } from 'tidegate/redis'

export const OURS = 'Tidegate'
export const PEER = 'rate-limiter-flexible'

export type Client = Redis | Cluster

export type Ask = (key: string) => Promise<unknown>

export interface RedisContender {
  readonly name: string
  readonly isOurs: boolean
  /** A limiter with its connection, as one process has it. */
  on(client: Client): Ask | Promise<Ask>
}

/** Never reached: counting is measured, not refusing. */
const POINTS = 1_000_000_000

/** Long, because a decision of the fallback on a busy machine has another cost. */
const DEADLINE_MS = 5_000

const DAY_S = 86_400

const flexible: RedisContender = {
  name: PEER,
  isOurs: false,
  on(client) {
    const options = { storeClient: client, points: POINTS, duration: DAY_S }
    const limiter = new RateLimiterRedis(options)
    return (key) => limiter.consume(key)
  },
}

/** The store of express-rate-limit, without the middleware around it. */
const rateLimitRedis: RedisContender = {
  name: 'rate-limit-redis',
  isOurs: false,
  async on(client) {
    const store = new RedisStore({
      sendCommand: (command, ...args) => client.call(command, ...args) as Promise<RedisReply>,
    })
    await store.init({ windowMs: DAY_S * 1_000 } as Parameters<typeof store.init>[0])
    return (key) => store.increment(key)
  },
}

const bareIncrement: RedisContender = {
  name: 'bare INCR',
  isOurs: false,
  on: (client) => (key) => client.incr(`incr:${key}`),
}

/**
 * The contenders with a limit per day that is never reached. It is low enough that a counter
 * outlives the time between two requests: a drained counter expires, which changes the cost.
 *
 * rate-limit-redis leaves Cluster to its user.
 */
export function clusterContenders(perDay: number): RedisContender[] {
  return [ours(OURS, tokenBucket({ limit: perDay, per: '1d' })), flexible]
}

/**
 * The contenders whose decisions are measured; the bare command is the minimum of counting in
 * Redis.
 */
export function decisionContenders(perDay: number): RedisContender[] {
  return [...clusterContenders(perDay), rateLimitRedis, bareIncrement]
}

/** The contenders on one shard, which has this number of buckets. */
export function shardContenders(buckets: number): RedisContender[] {
  const limit = { limit: 1_000_000, per: '1d' } as const
  return [
    ours(OURS, tokenBucket(limit), { buckets }),
    ours(`${OURS}, slidingWindow`, slidingWindow(limit), { buckets }),
    ours(`${OURS}, fixedWindow`, fixedWindow(limit), { buckets }),
    ours(`${OURS}, slidingLog`, slidingLog({ limit: 100, per: '1s' }), { buckets }),
    flexible,
  ]
}

/** Our other algorithms, which cost Redis more. The log is kept short, as in practice. */
export function algorithmContenders(perDay: number): RedisContender[] {
  return [
    ours(`${OURS}, slidingWindow`, slidingWindow({ limit: perDay, per: '1d' })),
    ours(`${OURS}, fixedWindow`, fixedWindow({ limit: perDay, per: '1d' })),
    ours(`${OURS}, slidingLog`, slidingLog({ limit: 100, per: '1s' })),
  ]
}

const weighed = { limit: 10, per: '1d' } as const

/**
 * The contenders whose keys are weighed. No key expires meanwhile: a unit of a bucket takes hours
 * to drain.
 */
export const keyContenders: readonly RedisContender[] = [
  ours('Tidegate, tokenBucket', tokenBucket(weighed)),
  ours('Tidegate, slidingWindow', slidingWindow(weighed)),
  ours('Tidegate, fixedWindow', fixedWindow(weighed)),
  ours('Tidegate, slidingLog', slidingLog(weighed)),
  flexible,
  rateLimitRedis,
]

function ours(name: string, limit: Limit, options: RedisStoreOptions = {}): RedisContender {
  return {
    name,
    isOurs: true,
    on(client) {
      const store = redisStore(client, options)
      const limiter = createLimiter({ limit, store, deadlineMs: DEADLINE_MS, queueMs: DEADLINE_MS })
      return async (key) => {
        const { degraded } = await limiter.check(key)
        if (degraded !== null) throw new Error(`decided without Redis: ${degraded.reason}`)
      }
    },
  }
}
