/** Every client that the library supports, connected to the servers of this folder. */

import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5'
import * as nodeRedis6 from 'redis'
import * as nodeRedis5 from 'redis5'
import type {
  IoredisClient,
  NodeRedisClient,
  RedisClient,
} from '../../../packages/tidegate/src/stores/redis/client.ts'
import type { RedisCluster } from './cluster.ts'
import type { RedisAddress } from './redis.ts'
import type { RedisSentinel } from './sentinel.ts'

export interface ConnectedClient {
  readonly client: RedisClient
  /** Closes the connections without waiting for pending commands. */
  close(): void
}

export interface RedisClientKind {
  readonly name: string
  single(address: RedisAddress & Credentials): Promise<ConnectedClient>
  cluster(cluster: RedisCluster): Promise<ConnectedClient>
  sentinel(sentinel: RedisSentinel): Promise<ConnectedClient>
  /** Several connections behind one client, if the client supports it. */
  pool?(address: RedisAddress): Promise<ConnectedClient>
}

export interface Credentials {
  readonly username?: string
}

/** Clients with their default options. */
export const redisClientKinds: readonly RedisClientKind[] = clientKinds('default')

/** Clients with the options that docs/redis.md recommends. */
export const recommendedClientKinds: readonly RedisClientKind[] = clientKinds('recommended')

type Settings = 'default' | 'recommended'

function clientKinds(settings: Settings): RedisClientKind[] {
  return [
    ioredis('ioredis 5', settings, {
      single: (options) => new Redis5(options),
      cluster: (nodes, options) => new Cluster5(nodes, options),
    }),
    ioredis('ioredis 6', settings, {
      single: (options) => new Redis(options),
      cluster: (nodes, options) => new Cluster(nodes, options),
    }),
    nodeRedis('node-redis 5', settings, nodeRedis5),
    nodeRedis('node-redis 6', settings, nodeRedis6),
  ]
}

/** Spread over half a second, so that many clients do not reconnect all at once. */
const reconnectDelayMs = () => Math.random() * 500

const ioredisNode = {
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  socketTimeout: 1_000,
  connectTimeout: 1_000,
}

const ioredisSingle = {
  ...ioredisNode,
  enableOfflineQueue: false,
  retryStrategy: reconnectDelayMs,
}

const ioredisSentinel = {
  ...ioredisSingle,
  sentinelCommandTimeout: 500,
}

const ioredisCluster = {
  retryDelayOnFailover: 0,
  retryDelayOnClusterDown: 0,
  retryDelayOnTryAgain: 5,
  redisOptions: ioredisNode,
}

const nodeRedisNode = {
  disableOfflineQueue: true,
  pingInterval: 500,
  socket: { socketTimeout: 1_000, connectTimeout: 1_000, reconnectStrategy: reconnectDelayMs },
}

const nodeRedisSentinel = {
  maxCommandRediscovers: 0,
  nodeClientOptions: nodeRedisNode,
  sentinelClientOptions: { pingInterval: 200, socket: { socketTimeout: 500 } },
}

const nodeRedisCluster = {
  defaults: nodeRedisNode,
  topologyRefreshOnReconnectionAttemptStrategy: 250,
}

/** The subset of ioredis that is used here; the types of its versions differ elsewhere. */
interface Ioredis {
  single(options: IoredisOptions): IoredisClient & IoredisConnection
  cluster(nodes: Address[], options: IoredisOptions): IoredisClient & IoredisConnection
}

interface Address {
  readonly host: string
  readonly port: number
}

interface IoredisOptions extends Partial<Address> {
  readonly username?: string
  readonly password?: string
  readonly tls?: { readonly ca: string }
  readonly sentinels?: Address[]
  readonly name?: string
  readonly lazyConnect: true
}

interface IoredisConnection {
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  disconnect(): void
}

interface NodeRedis {
  createClient(options: NodeRedisOptions): NodeRedisClient & NodeRedisConnection
  createClientPool(options: NodeRedisOptions): NodeRedisClient & NodeRedisConnection
  createCluster(options: { rootNodes: NodeRedisOptions[] }): NodeRedisClient & NodeRedisConnection
  createSentinel(options: {
    name: string
    sentinelRootNodes: Address[]
  }): NodeRedisClient & NodeRedisConnection
}

interface NodeRedisOptions {
  readonly username?: string
  readonly password?: string
  readonly socket: Address & { readonly tls?: true; readonly ca?: string }
}

interface NodeRedisConnection {
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  destroy(): unknown
}

function ioredis(name: string, settings: Settings, library: Ioredis): RedisClientKind {
  const isRecommended = settings === 'recommended'
  const connected = async (client: IoredisClient & IoredisConnection) => {
    client.on('error', ignored)
    await client.connect()
    return { client, close: () => client.disconnect() }
  }
  // Connects explicitly, so that a failure to connect is a rejection.
  const lazyConnect = true as const
  return {
    name,
    single: ({ host, port, username, password, tls }) =>
      connected(
        library.single({
          host,
          port,
          ...(username !== undefined && { username }),
          ...(password !== undefined && { password }),
          ...(tls && { tls }),
          lazyConnect,
          ...(isRecommended && ioredisSingle),
        }),
      ),
    cluster: ({ addresses }) => {
      const options = { lazyConnect, ...(isRecommended && ioredisCluster) }
      return connected(library.cluster([...addresses], options))
    },
    sentinel: ({ addresses, name }) => {
      const options = { sentinels: [...addresses], name, lazyConnect }
      return connected(library.single({ ...options, ...(isRecommended && ioredisSentinel) }))
    },
  }
}

function nodeRedis(name: string, settings: Settings, library: NodeRedis): RedisClientKind {
  const isRecommended = settings === 'recommended'
  const connected = async (client: NodeRedisClient & NodeRedisConnection) => {
    client.on('error', ignored)
    await client.connect()
    return { client, close: () => void client.destroy() }
  }
  const options = ({ host, port, username, password, tls }: RedisAddress & Credentials) => ({
    ...(isRecommended && nodeRedisNode),
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    socket: {
      ...(isRecommended && nodeRedisNode.socket),
      host,
      port,
      ...(tls && { tls: true as const, ca: tls.ca }),
    },
  })
  return {
    name,
    single: (address) => connected(library.createClient(options(address))),
    pool: (address) => connected(library.createClientPool(options(address))),
    cluster: ({ addresses }) => {
      const rootNodes = addresses.map((socket) => ({ socket }))
      return connected(library.createCluster({ rootNodes, ...(isRecommended && nodeRedisCluster) }))
    },
    sentinel: ({ addresses, name }) => {
      const options = { name, sentinelRootNodes: [...addresses] }
      return connected(
        library.createSentinel({ ...options, ...(isRecommended && nodeRedisSentinel) }),
      )
    },
  }
}

/** The promises of the calls report errors. */
function ignored(): void {}
