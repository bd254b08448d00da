/**
 * One of several processes that share budgets on one Redis. It sends its part of the trace as fast
 * as it can, and reports when each request was sent and answered, and the decision. Started by
 * shared.ts.
 */

import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import {
  type Accuracy,
  createLimiter,
  fixedWindow,
  type Limit,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { makeTrace, type TraceOptions } from './trace.ts'

export interface SharedPlan {
  readonly prefix: string
  readonly contender: SharedContender
  /** The budget of each key; it does not refill during the run. */
  readonly limit: number
  readonly trace: TraceOptions
  /** The number of processes; each takes every `processes`-th request of the trace. */
  readonly processes: number
  readonly at: number
}

export type SharedContender =
  | { readonly library: 'rate-limiter-flexible' }
  | {
      readonly library: 'tidegate'
      readonly algorithm: SharedAlgorithm
      readonly accuracy: Accuracy
    }

/** The answers to the requests, in the order of the trace. Times are of the monotonic clock. */
export interface SharedAnswers {
  readonly keys: Uint16Array
  readonly askedNs: Float64Array
  readonly answeredNs: Float64Array
  readonly outcomes: Uint8Array
}

export const outcomes = { refused: 0, admitted: 1, degraded: 2 } as const

export type SharedAlgorithm = 'tokenBucket' | 'slidingWindow' | 'slidingLog' | 'fixedWindow'

const algorithms: Record<SharedAlgorithm, (options: LimitOptions) => Limit> = {
  tokenBucket,
  slidingWindow,
  slidingLog,
  fixedWindow,
}

interface LimitOptions {
  readonly limit: number
  readonly per: `${number}d`
  readonly accuracy: Accuracy
}

/** Concurrent callers per process, so that requests are batched as in a busy server. */
const CALLERS = 64

/** Calls after which a caller yields to timers and sockets, as a server does. */
const TURN_CALLS = 100

/** The longest allowed period: the budget does not refill noticeably within a minute. */
const PERIOD_DAYS = 366

if (process.argv[1] === import.meta.filename) {
  const client = new Redis(process.argv[2] ?? '')
  let start = async (): Promise<void> => undefined
  process.on('message', (message: SharedPlan | 'go') => {
    if (message === 'go') return void start()
    const contender = contenderOf(message, client)
    const keys = ownKeys(message)
    start = async () => {
      process.send?.(await askAll(keys, contender.ask))
      await contender.close()
    }
    process.send?.('ready')
  })
  process.once('disconnect', () => process.exit())
}

interface Asked {
  ask(key: string): Promise<number>
  close(): unknown
}

function contenderOf({ contender, limit, prefix }: SharedPlan, client: Redis): Asked {
  if (contender.library === 'rate-limiter-flexible') return flexible(limit, prefix, client)
  const { algorithm, accuracy } = contender
  const limiter = createLimiter({
    limit: algorithms[algorithm]({ limit, per: `${PERIOD_DAYS}d`, accuracy }),
    store: redisStore(client, { prefix }),
    // On an overloaded machine, a short deadline would let the fallback decide instead of Redis.
    deadlineMs: 1_000,
  })
  return {
    async ask(key) {
      const { allowed, degraded } = await limiter.check(key)
      if (degraded !== null) return outcomes.degraded
      return allowed ? outcomes.admitted : outcomes.refused
    },
    close: () => limiter.close(),
  }
}

function flexible(limit: number, prefix: string, client: Redis): Asked {
  const duration = PERIOD_DAYS * 86_400
  const options = { storeClient: client, points: limit, duration, keyPrefix: prefix }
  const limiter = new RateLimiterRedis(options)
  return {
    async ask(key) {
      try {
        await limiter.consume(key)
        return outcomes.admitted
      } catch (refusal) {
        return refusal instanceof Error ? outcomes.degraded : outcomes.refused
      }
    },
    close: () => undefined,
  }
}

function ownKeys({ trace, processes, at }: SharedPlan): Uint16Array {
  return makeTrace(trace).keys.filter((_, index) => index % processes === at)
}

async function askAll(keys: Uint16Array, ask: Asked['ask']): Promise<SharedAnswers> {
  const askedNs = new Float64Array(keys.length)
  const answeredNs = new Float64Array(keys.length)
  const results = new Uint8Array(keys.length)
  let next = 0
  const caller = async () => {
    for (let at = next++; at < keys.length; at = next++) {
      askedNs[at] = Number(process.hrtime.bigint())
      results[at] = await ask(`key ${keys[at]}`)
      answeredNs[at] = Number(process.hrtime.bigint())
      if (at % TURN_CALLS === 0) await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
  return { keys, askedNs, answeredNs, outcomes: results }
}
