/**
 * A process that asks for keys as fast as it can: for tests of hot keys, and for the benchmark of
 * them. It is started by `startHotWorkers`, and runs whenever it is told to.
 */

import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { createLimiter, fixedWindow, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'

export interface HotPlan {
  readonly url: string
  readonly library: 'tidegate' | 'rate-limiter-flexible'
  readonly algorithm: 'tokenBucket' | 'fixedWindow'
  readonly limit: number
  readonly perMs: number
}

export interface HotRound {
  readonly durationMs: number
  readonly inFlight: number
  /** Keys are drawn from so many: all alike, or with Zipf's law of exponent 1.1. */
  readonly keys: number
  readonly isZipf: boolean
  /** At most so many calls; a negative number sets no bound. */
  readonly callsMax: number
}

export interface HotResult {
  readonly made: number
  readonly admitted: number
  readonly degraded: number
  /** Of the calls that were neither admitted nor denied. */
  readonly failed: number
  readonly p99Ms: number
}

/** Draws in advance, because drawing would take longer than deciding. */
const DRAWS = 65_536

/** Every so many calls it lets timers and sockets have their turn, as a server would. */
const TURN_CALLS = 500

/** One call of so many is timed. */
const TIMED_EVERY = 16

const ZIPF_EXPONENT = 1.1

const plan: HotPlan = JSON.parse(process.argv[2] ?? '')
const client = new Redis(plan.url)
const check = plan.library === 'tidegate' ? tidegate() : flexible()

process.on('message', async (round: HotRound) => {
  process.send?.(await run(round))
})
process.once('disconnect', () => process.exit())
process.send?.('ready')

/** undefined stands for a degraded answer. */
function tidegate(): (key: string) => Promise<boolean | undefined> {
  const { limit, perMs } = plan
  const options = { limit, per: perMs }
  const isBucket = plan.algorithm === 'tokenBucket'
  const limiter = createLimiter({
    limit: isBucket ? tokenBucket(options) : fixedWindow(options),
    store: redisStore(client),
    deadlineMs: 1_000,
  })
  return async (key) => {
    const { allowed, degraded } = await limiter.check(key)
    return degraded === null ? allowed : undefined
  }
}

function flexible(): (key: string) => Promise<boolean> {
  const limiter = new RateLimiterRedis({
    storeClient: client,
    points: plan.limit,
    duration: plan.perMs / 1_000,
  })
  return (key) =>
    limiter.consume(key).then(
      () => true,
      (refusal: unknown) => {
        if (refusal instanceof Error) throw refusal
        return false
      },
    )
}

async function run(round: HotRound): Promise<HotResult> {
  const draws = drawKeys(round)
  const times: number[] = []
  const result = { made: 0, admitted: 0, degraded: 0, failed: 0 }
  const endMs = performance.now() + round.durationMs
  const caller = async (): Promise<void> => {
    while (performance.now() < endMs) {
      if (round.callsMax >= 0 && result.made >= round.callsMax) return
      const at = result.made++
      const startMs = at % TIMED_EVERY === 0 ? performance.now() : 0
      const allowed = await check(draws[at % DRAWS] as string).catch(() => null)
      if (startMs > 0) times.push(performance.now() - startMs)
      if (allowed === true) result.admitted++
      else if (allowed === undefined) result.degraded++
      else if (allowed === null) result.failed++
      if (at % TURN_CALLS === 0) await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await Promise.all(Array.from({ length: round.inFlight }, caller))
  times.sort((one, other) => one - other)
  return { ...result, p99Ms: times[Math.floor(times.length * 0.99)] ?? 0 }
}

function drawKeys({ keys, isZipf }: HotRound): string[] {
  if (!isZipf) {
    return Array.from({ length: DRAWS }, () => `key ${Math.floor(Math.random() * keys)}`)
  }
  const sums = new Float64Array(keys)
  let sum = 0
  for (let rank = 0; rank < keys; rank++) {
    sum += 1 / (rank + 1) ** ZIPF_EXPONENT
    sums[rank] = sum
  }
  return Array.from({ length: DRAWS }, () => `key ${rankOf(sums, Math.random() * sum)}`)
}

function rankOf(sums: Float64Array, point: number): number {
  let [low, high] = [0, sums.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sums[middle] as number) < point) low = middle + 1
    else high = middle
  }
  return low
}
