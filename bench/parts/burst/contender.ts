/** One limiter under bench/burst.ts, in a process of its own. */

import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { createLimiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import type { BurstAnswer } from '../../../test/burst/burst-report.ts'
import type { BurstCaller } from '../../../test/burst/burst-run.ts'
import { serveBursts } from '../../../test/burst/burst-serve.ts'
import type { BurstContenderName, ContenderPlan } from './plan.ts'

const DAY_S = 86_400

/**
 * The minimum of a token bucket: it reads the time and one counter, decides, and writes the counter
 * with its expiry. It has one key and three arguments, like ours.
 */
const SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local capacity, scale, rate = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local value = redis.call('GET', KEYS[1])
local used, since = 0, now
if value then
  used, since = string.match(value, '^(%d+):(%d+)$')
  used, since = tonumber(used), tonumber(since)
end
local level = math.max(0, used * scale - (now - since) * rate)
if level + scale > capacity * scale then return -level end
local lifetime = math.ceil((level + scale) / rate)
redis.call('SET', KEYS[1], string.format('%d:%d', used + 1, since), 'PX', lifetime)
return 1
`

const scriptSha = createHash('sha1').update(SCRIPT).digest('hex')

const contenders: Readonly<
  Record<BurstContenderName, (client: Redis, limit: number) => Omit<BurstCaller, 'limit'>>
> = { Tidegate: tidegate, 'rate-limiter-flexible': flexible, 'bare EVALSHA': bareScript }

const { contender, url, limit, isWarm } = JSON.parse(process.argv[2] ?? '') as ContenderPlan
await serveBursts(() => ({ limit, ...contenders[contender](new Redis(url), limit) }), isWarm)

function tidegate(client: Redis, limit: number) {
  const store = redisStore(client)
  const limiter = createLimiter({ limit: tokenBucket({ limit, per: '1d' }), store })
  return { call: (key: string) => limiter.check(key) }
}

function flexible(client: Redis, limit: number) {
  const limiter = new RateLimiterRedis({ storeClient: client, points: limit, duration: DAY_S })
  return {
    call: (key: string) =>
      limiter.consume(key).then(
        () => answerOf(true),
        (reason: unknown) => {
          if (reason instanceof Error) throw reason
          return answerOf(false)
        },
      ),
  }
}

/** Sends all commands of a burst in one write, without a queue, deadlines or decision objects. */
function bareScript(client: Redis, limit: number) {
  void client.script('LOAD', SCRIPT)
  const command = (key: string) =>
    [scriptSha, 1, `bare:${key}`, limit, DAY_S * 1_000, limit] as const
  return {
    call: async (key: string) => answerOf((await client.evalsha(...command(key))) === 1),
    async callAll(keys: readonly string[]) {
      const pipeline = client.pipeline()
      for (const key of keys) pipeline.evalsha(...command(key))
      const replies = (await pipeline.exec()) ?? []
      return replies.map(([error, reply]) => {
        if (error) throw error
        return answerOf(reply === 1)
      })
    },
  }
}

function answerOf(allowed: boolean): BurstAnswer {
  return { allowed, retryAfterMs: 0, degraded: null }
}
