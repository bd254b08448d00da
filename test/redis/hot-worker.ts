/**
 * A process that makes calls as fast as it can, for tests and benchmarks of hot keys. Started by
 * `startHotWorkers`; runs a round per message.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import {
  createLimiter,
  type Decision,
  fixedWindow,
  tokenBucket,
} from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { PATIENCE_MS, patient } from '../support/patience.ts'

export interface HotPlan {
  readonly url: string
  /** Sentinels to use instead of the URL, with the options that the guide recommends. */
  readonly sentinel?: { readonly name: string; readonly addresses: readonly HotAddress[] }
  readonly library: 'tidegate' | 'rate-limiter-flexible'
  readonly algorithm: 'tokenBucket' | 'fixedWindow'
  readonly limit: number
  readonly perMs: number
  readonly accuracy?: 'exact' | 'leased' | 'synced'
}

interface HotAddress {
  readonly host: string
  readonly port: number
}

export interface HotRound {
  readonly durationMs: number
  readonly inFlight: number
  /** The number of keys: equally frequent, or by Zipf's law with exponent 1.1. */
  readonly keys: number
  readonly isZipf: boolean
  /** The pause of each caller between two calls; 0 for none. */
  readonly pauseMs: number
  /** True to report the admitted calls of each second. */
  readonly bySecond: boolean
  /** The largest number of calls; a negative number sets no bound. */
  readonly callsMax: number
}

export interface HotResult {
  readonly made: number
  readonly admitted: number
  readonly degraded: number
  /** Calls that were neither admitted nor denied. */
  readonly failed: number
  readonly p99Ms: number
  /** Admitted calls by second since 1970, if requested. */
  readonly seconds: Readonly<Record<number, number>>
}

/** Keys are drawn in advance, because drawing would take longer than deciding. */
const DRAWS = 65_536

/** Calls after which a caller yields to timers and sockets, as a server does. */
const TURN_CALLS = 500

/** One of this many calls is timed. */
const TIMED_EVERY = 16

const ZIPF_EXPONENT = 1.1

const plan: HotPlan = JSON.parse(process.argv[2] ?? '')
const client = plan.sentinel === undefined ? new Redis(plan.url) : byName(plan.sentinel)
// The answers report failures.
client.on('error', () => undefined)
const library = plan.library === 'tidegate' ? tidegate() : flexible()

process.on('message', async (round: HotRound) => {
  process.send?.(await run(round))
})
process.once('disconnect', () => process.exit())
client.once('ready', () => process.send?.('ready'))

function byName({ name, addresses }: NonNullable<HotPlan['sentinel']>): Redis {
  return new Redis({
    name,
    sentinels: [...addresses],
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    socketTimeout: 1_000,
    connectTimeout: 1_000,
    retryStrategy: () => Math.random() * 500,
    sentinelCommandTimeout: 500,
  })
}

type Outcome = 'admitted' | 'denied' | 'degraded' | 'failed'

/** How to call a library, and how to interpret its result or error. */
interface Asked {
  ask(key: string): Promise<unknown>
  outcomeOf(answer: unknown): Outcome
  outcomeOfError(error: unknown): Outcome
}

function tidegate(): Asked {
  const { limit, perMs, accuracy } = plan
  const options = { limit, per: `${perMs}ms` as const, ...(accuracy && { accuracy }) }
  const isBucket = plan.algorithm === 'tokenBucket'
  const limiter = createLimiter({
    limit: isBucket ? tokenBucket(options) : fixedWindow(options),
    store: redisStore(client, { timeoutMs: PATIENCE_MS }),
    ...patient,
  })
  return {
    ask: (key) => limiter.check(key),
    outcomeOf(answer) {
      const { allowed, degraded } = answer as Decision
      if (degraded !== null) return 'degraded'
      return allowed ? 'admitted' : 'denied'
    },
    outcomeOfError: () => 'failed',
  }
}

function flexible(): Asked {
  const { limit: points, perMs } = plan
  const limiter = new RateLimiterRedis({ storeClient: client, points, duration: perMs / 1_000 })
  return {
    ask: (key) => limiter.consume(key),
    outcomeOf: () => 'admitted',
    outcomeOfError: (refusal) => (refusal instanceof Error ? 'failed' : 'denied'),
  }
}

async function outcomeOf(key: string): Promise<Outcome> {
  try {
    return library.outcomeOf(await library.ask(key))
  } catch (error) {
    return library.outcomeOfError(error)
  }
}

async function run(round: HotRound): Promise<HotResult> {
  const draws = drawKeys(round)
  const times: number[] = []
  const counts = { admitted: 0, denied: 0, degraded: 0, failed: 0 }
  const seconds: Record<number, number> = {}
  let made = 0
  let isOver = false
  const endMs = performance.now() + round.durationMs
  const caller = async (): Promise<void> => {
    while (!isOver && (round.callsMax < 0 || made < round.callsMax)) {
      const at = made++
      const startMs = at % TIMED_EVERY === 0 ? performance.now() : 0
      const outcome = await outcomeOf(draws[at % DRAWS] as string)
      counts[outcome]++
      if (round.bySecond && outcome === 'admitted') {
        const second = Math.floor(Date.now() / 1_000)
        seconds[second] = (seconds[second] ?? 0) + 1
      }
      if (startMs > 0) {
        const nowMs = performance.now()
        times.push(nowMs - startMs)
        isOver = nowMs >= endMs
      }
      if (round.pauseMs > 0) await sleep(round.pauseMs)
      else if (at % TURN_CALLS === 0) await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await Promise.all(Array.from({ length: round.inFlight }, caller))
  times.sort((one, other) => one - other)
  const { denied, ...told } = counts
  return { made, ...told, p99Ms: times[Math.floor(times.length * 0.99)] ?? 0, seconds }
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
