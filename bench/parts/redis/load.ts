/**
 * Decisions on Redis by one process at a given number of calls in flight: decisions per second,
 * latency, and processor time here and on the servers.
 */

import type { Cluster, Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { createLimiter, type Decision, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'

export interface RedisCaller {
  readonly name: string
  call(key: string): Promise<unknown>
  /** Throws if the answer does not come from Redis. */
  verify?(answer: unknown): void
}

export interface RedisLoad {
  readonly inFlight: number
  readonly calls: number
  /** Keys of the calls, in turn and cyclic. */
  readonly keys: readonly string[]
}

export interface RedisRound {
  readonly perSecond: number
  readonly p99Ms: number
  /** Processor time of this process and the servers together, per decision. */
  readonly cpuUs: number
}

export const OURS = 'Tidegate'
export const PEER = 'rate-limiter-flexible'
export const YARDSTICK = 'bare INCR'

const PER_SECONDS = 60

/** Far longer than a call takes, so that Redis makes every decision. */
const DEADLINE_MS = 5_000

/** The callers on one client: ours, the peer, and a command that only counts. */
export function redisCallers(client: Redis | Cluster, limit: number): readonly RedisCaller[] {
  const limiter = createLimiter({
    limit: tokenBucket({ limit, per: `${PER_SECONDS}s` }),
    store: redisStore(client),
    deadlineMs: DEADLINE_MS,
  })
  const flexible = new RateLimiterRedis({
    storeClient: client,
    points: limit,
    duration: PER_SECONDS,
  })
  return [
    {
      name: OURS,
      call: (key) => limiter.check(key),
      verify(answer) {
        const { degraded } = answer as Decision
        if (degraded !== null) throw new Error(`a decision without Redis: ${degraded}`)
      },
    },
    { name: PEER, call: (key) => flexible.consume(key) },
    { name: YARDSTICK, call: (key) => client.incr(`incr:${key}`) },
  ]
}

export async function measure(
  { call, verify }: RedisCaller,
  { inFlight, calls, keys }: RedisLoad,
  serversCpuUs: () => Promise<number>,
): Promise<RedisRound> {
  const times = new Float64Array(calls)
  let next = 0
  const worker = async () => {
    for (let at = next++; at < calls; at = next++) {
      const start = performance.now()
      const answer = await call(keys[at % keys.length] as string)
      times[at] = performance.now() - start
      verify?.(answer)
    }
  }
  const [ownBefore, serversBefore] = [process.cpuUsage(), await serversCpuUs()]
  const start = performance.now()
  await Promise.all(Array.from({ length: inFlight }, worker))
  const elapsedMs = performance.now() - start
  const own = process.cpuUsage(ownBefore)
  const cpuUs = own.user + own.system + (await serversCpuUs()) - serversBefore
  times.sort()
  return {
    perSecond: (calls * 1_000) / elapsedMs,
    p99Ms: times[Math.floor(calls * 0.99)] as number,
    cpuUs: cpuUs / calls,
  }
}

/** The processor time of these servers since their start. */
export async function cpuUsOf(servers: readonly Redis[]): Promise<number> {
  const infos = await Promise.all(servers.map((server) => server.info('cpu')))
  const seconds = infos.flatMap((info) =>
    Array.from(info.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm), ([, text]) => Number(text)),
  )
  return seconds.reduce((sum, each) => sum + each, 0) * 1e6
}
