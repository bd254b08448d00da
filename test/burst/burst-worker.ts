/**
 * A process that makes bursts of calls on a limiter with default options. It is started by
 * `startBurstProcess`.
 */

import { createLimiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { type BurstAddress, type BurstClientName, burstClient } from './burst-clients.ts'
import type { BurstCaller } from './burst-run.ts'
import { serveBursts } from './burst-serve.ts'

export interface BurstPlan {
  readonly client: BurstClientName
  readonly addresses: readonly BurstAddress[]
  /** Units of each key per day. */
  readonly limit: number
  readonly isWarm: boolean
  /** Middlewares call `evaluate`. Default: `check`. */
  readonly method?: 'check' | 'evaluate'
}

const plan = JSON.parse(process.argv[2] ?? '') as BurstPlan
await serveBursts(() => callerOf(plan), plan.isWarm)

function callerOf({ client, addresses, limit, method }: BurstPlan): BurstCaller {
  const limiter = createLimiter({
    limit: tokenBucket({ limit, per: '1d' }),
    store: redisStore(burstClient(client, addresses)),
  })
  const call =
    method === 'evaluate'
      ? async (key: string) => (await limiter.evaluate(key)).decision
      : (key: string) => limiter.check(key)
  return { limit, call }
}
