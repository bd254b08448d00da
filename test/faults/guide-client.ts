/**
 * Clients as docs/reliability.md says to make them. The defaults of the clients are made for caches:
 * with them a request can be counted twice, and a client that has lost its server asks for it again
 * only every few seconds.
 */

import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'
import type { RedisClient } from '../../packages/tidegate/src/stores/redis/client.ts'

export const clientNames = ['ioredis', 'node-redis'] as const

export type ClientName = (typeof clientNames)[number]

export interface Address {
  readonly host: string
  readonly port: number
}

/** A server or a proxy, Sentinels, or nodes of a cluster. */
export type RedisPlace =
  | Address
  | { readonly sentinels: readonly Address[]; readonly name: string }
  | { readonly cluster: readonly Address[] }

export interface ClientOptions {
  /** Of ioredis with Sentinels: leave a master as soon as they name another. Default: true. */
  readonly failoverDetector?: boolean
}

export interface GuideClient {
  readonly client: RedisClient
  /** Cuts the connections; what is under way is not waited for. */
  close(): void
}

export function connectClient(
  name: ClientName,
  place: RedisPlace,
  options: ClientOptions = {},
): Promise<GuideClient> {
  return name === 'ioredis' ? connectIoredis(place, options) : connectNodeRedis(place)
}

/** Never the same for two clients, so that they do not all come at once, and never long. */
function reconnectDelayMs(): number {
  return 100 + Math.random() * 400
}

const ioredisOptions = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  retryStrategy: reconnectDelayMs,
  connectTimeout: 1000,
  socketTimeout: 1000,
} satisfies RedisOptions

async function connectIoredis(
  place: RedisPlace,
  { failoverDetector = true }: ClientOptions,
): Promise<GuideClient> {
  const client = ioredisOf(place, failoverDetector)
  client.on('error', ignored)
  await client.connect()
  return { client, close: () => client.disconnect() }
}

function ioredisOf(place: RedisPlace, failoverDetector: boolean): Redis | Cluster {
  if ('cluster' in place) {
    const { lazyConnect, enableOfflineQueue, ...redisOptions } = ioredisOptions
    return new Cluster([...place.cluster], {
      lazyConnect,
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      clusterRetryStrategy: reconnectDelayMs,
      redisOptions,
    })
  }
  if ('sentinels' in place) {
    const { name, sentinels } = place
    const found = { name, sentinels: [...sentinels], failoverDetector }
    return new Redis({ ...found, sentinelRetryStrategy: reconnectDelayMs, ...ioredisOptions })
  }
  return new Redis({ ...ioredisOptions, host: place.host, port: place.port })
}

async function connectNodeRedis(place: RedisPlace): Promise<GuideClient> {
  const client = nodeRedisOf(place)
  client.on('error', ignored)
  await client.connect()
  return { client, close: () => void client.destroy() }
}

function nodeRedisOf(place: RedisPlace) {
  const disableOfflineQueue = true
  const socket = { reconnectStrategy: reconnectDelayMs, connectTimeout: 1000 }
  if ('cluster' in place) {
    const rootNodes = place.cluster.map((node) => ({ socket: { ...node } }))
    return createCluster({ rootNodes, defaults: { disableOfflineQueue, socket } })
  }
  if ('sentinels' in place) {
    return createSentinel({
      name: place.name,
      sentinelRootNodes: [...place.sentinels],
      nodeClientOptions: { disableOfflineQueue, socket },
      maxCommandRediscovers: 0,
      scanInterval: 1000,
    })
  }
  const { host, port } = place
  return createClient({ disableOfflineQueue, socket: { ...socket, host, port } })
}

/** What goes wrong is told by the promises of the calls. */
function ignored(): void {}
