/** Reads the counters of a load, on a connection of its own. */

import { createLimiter, type Limit, type Limiter } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { keyOf } from '../support/faults/load-target.ts'
import { PATIENCE_MS, patient } from '../support/patience.ts'
import { type ConnectedClient, patientClientKinds } from '../support/servers/clients.ts'
import type { RedisCluster } from '../support/servers/cluster.ts'
import type { RedisServer } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'

/** The name of the limit of a load. */
export const LIMIT_NAME = 'd'

/**
 * Units in use of each of these keys. The connection may be dropped meanwhile, such as by a
 * Sentinel that reconfigures its servers, so reading is repeated until it succeeds.
 */
export async function usedByKey(
  redis: RedisServer | RedisCluster,
  limit: Limit,
  keys: readonly number[],
  name = LIMIT_NAME,
): Promise<Map<number, number>> {
  return until('the counters can be read', async () => {
    const connected = await connect(redis)
    try {
      const store = redisStore(connected.client, { timeoutMs: PATIENCE_MS })
      const limiter = createLimiter({ name, limit, store, ...patient })
      return new Map(await Promise.all(keys.map((number) => usedOf(limiter, number))))
    } finally {
      connected.close()
    }
  })
}

async function usedOf(limiter: Limiter<string>, number: number): Promise<[number, number]> {
  const { degraded, limit, remaining } = await limiter.peek(keyOf(number))
  if (degraded !== null) throw new Error(`the counters cannot be read: ${degraded.reason}`)
  return [number, limit - remaining]
}

/** The keys that are on one master of a cluster. */
export async function keysOnMaster(
  cluster: RedisCluster,
  { host, port }: RedisServer,
  limit: Limit,
  keys: number,
): Promise<Set<number>> {
  const connected = await connect(cluster)
  const shardOf = redisStore(connected.client).capabilities?.shardOf
  const numbers = Array.from({ length: keys }, (_, number) => number)
  const found = numbers.filter((number) => {
    const shard = shardOf?.({ name: LIMIT_NAME, limit, key: keyOf(number) })
    return shard === `${host}:${port}`
  })
  connected.close()
  return new Set(found)
}

function connect(redis: RedisServer | RedisCluster): Promise<ConnectedClient> {
  const kind = patientClientKinds.find(({ name }) => name === 'ioredis 6')
  if (kind === undefined) throw new Error('there is no such client')
  return 'masters' in redis ? kind.cluster(redis) : kind.single(redis)
}

export function sumOf(used: ReadonlyMap<number, number>): number {
  return [...used.values()].reduce((total, units) => total + units, 0)
}
