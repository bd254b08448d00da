/** Clients without a connection yet, as in a process before its first call. */

import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { createClient } from 'redis'
import type { RedisClient } from 'tidegate/redis'

export interface BurstAddress {
  readonly host: string
  readonly port: number
}

const ioredisOptions = {
  ioredis: {},
  'ioredis, lazyConnect': { lazyConnect: true },
  'ioredis, no offline queue': { enableOfflineQueue: false },
  'ioredis, lazyConnect, no offline queue': { lazyConnect: true, enableOfflineQueue: false },
} as const satisfies Readonly<Record<string, RedisOptions>>

type IoredisName = keyof typeof ioredisOptions

export type BurstClientName = IoredisName | 'node-redis' | 'ioredis, Cluster'

/** The clients of one server. */
export const burstClientNames: readonly BurstClientName[] = [
  ...(Object.keys(ioredisOptions) as IoredisName[]),
  'node-redis',
]

/** Returns immediately; the client connects in the background, or with the first command. */
export function burstClient(
  name: BurstClientName,
  addresses: readonly BurstAddress[],
): RedisClient {
  const [first] = addresses
  if (first === undefined) throw new Error('a client needs an address')
  if (name === 'node-redis') return nodeRedis(first)
  const client =
    name === 'ioredis, Cluster'
      ? new Cluster([...addresses])
      : new Redis({ ...first, ...ioredisOptions[name] })
  client.on('error', ignored)
  return client
}

function nodeRedis(socket: BurstAddress): RedisClient {
  const client = createClient({ socket })
  client.on('error', ignored)
  client.connect().catch(ignored)
  return client
}

/** Failures reach the test as answers of the calls. */
function ignored(): void {}
