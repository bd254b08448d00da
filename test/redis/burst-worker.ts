/**
 * A process that makes bursts of calls on a limiter with default options, one for each message. It
 * is started by `startBurstProcess`. A cold process makes its client and its limiter with the first
 * burst; a warm one has been answered before.
 */

import { createLimiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { type BurstAddress, type BurstClientName, burstClient } from './burst-clients.ts'
import { degradedCount } from './burst-report.ts'
import { type BurstCaller, type BurstOrder, runBurst } from './burst-run.ts'

export interface BurstPlan {
  readonly client: BurstClientName
  readonly addresses: readonly BurstAddress[]
  /** Units of each key per day. */
  readonly limit: number
  readonly isWarm: boolean
  /** Middleware asks by `evaluate`. Default: `check`. */
  readonly method?: 'check' | 'evaluate'
}

/** As many as compile the code, with so few in flight that all are answered at once. */
const warmUp: Omit<BurstOrder, 'name'> = {
  keys: 1_000,
  asksPerKey: 5,
  pace: { inFlight: 16, forMs: 500 },
}

/** Each takes half a second; a machine that is busy for longer cannot run this test. */
const WARM_UPS_MAX = 20

const plan = JSON.parse(process.argv[2] ?? '') as BurstPlan
let made: BurstCaller | undefined

const prepare = () => {
  made ??= callerOf(plan)
  return made
}

process.on('message', async (order: BurstOrder) => {
  process.send?.(await runBurst(prepare, order))
})
process.once('disconnect', () => process.exit())
if (plan.isWarm) await warm()
process.send?.('ready')

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

/** Ends with a warm-up that nothing has disturbed. */
async function warm(): Promise<void> {
  for (let round = 1; round <= WARM_UPS_MAX; round++) {
    const result = await runBurst(prepare, { ...warmUp, name: `warm-up-${round}` })
    if (degradedCount(result) === 0) return
  }
  throw new Error('every warm-up was disturbed')
}
