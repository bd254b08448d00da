/** Every client that the library works with, connected to the servers of this folder. */

import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5'
import * as nodeRedis6 from 'redis'
import * as nodeRedis5 from 'redis5'
import type {
  IoredisClient,
  NodeRedisClient,
  RedisClient,
} from '../../packages/tidegate/src/stores/redis/client.ts'
import type { RedisCluster } from './cluster.ts'
import type { RedisAddress } from './redis.ts'
import type { RedisSentinel } from './sentinel.ts'

export interface ConnectedClient {
  readonly client: RedisClient
  /** Cuts the connections; what is under way is not waited for. */
  close(): void
}

export interface RedisClientKind {
  readonly name: string
  single(address: RedisAddress & Credentials): Promise<ConnectedClient>
  cluster(cluster: RedisCluster): Promise<ConnectedClient>
  sentinel(sentinel: RedisSentinel): Promise<ConnectedClient>
  /** Several connections behind one client, where there is such a thing. */
  pool?(address: RedisAddress): Promise<ConnectedClient>
}

export interface Credentials {
  readonly username?: string
}

export const redisClientKinds: readonly RedisClientKind[] = [
  ioredis('ioredis 5', {
    single: (options) => new Redis5(options),
    cluster: (nodes, options) => new Cluster5(nodes, options),
  }),
  ioredis('ioredis 6', {
    single: (options) => new Redis(options),
    cluster: (nodes, options) => new Cluster(nodes, options),
  }),
  nodeRedis('node-redis 5', nodeRedis5),
  nodeRedis('node-redis 6', nodeRedis6),
]

/** The versions differ in types that do not matter here, so they share what is used of them. */
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

function ioredis(name: string, library: Ioredis): RedisClientKind {
  const connected = async (client: IoredisClient & IoredisConnection) => {
    client.on('error', ignored)
    await client.connect()
    return { client, close: () => client.disconnect() }
  }
  // Connects when told to, so that a failure to connect is a rejection.
  const lazyConnect = true
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
        }),
      ),
    cluster: ({ addresses }) => connected(library.cluster([...addresses], { lazyConnect })),
    sentinel: ({ addresses, name }) =>
      connected(library.single({ sentinels: [...addresses], name, lazyConnect })),
  }
}

function nodeRedis(name: string, library: NodeRedis): RedisClientKind {
  const connected = async (client: NodeRedisClient & NodeRedisConnection) => {
    client.on('error', ignored)
    await client.connect()
    return { client, close: () => void client.destroy() }
  }
  const options = ({ host, port, username, password, tls }: RedisAddress & Credentials) => ({
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    socket: { host, port, ...(tls && { tls: true as const, ca: tls.ca }) },
  })
  return {
    name,
    single: (address) => connected(library.createClient(options(address))),
    pool: (address) => connected(library.createClientPool(options(address))),
    cluster: ({ addresses }) =>
      connected(library.createCluster({ rootNodes: addresses.map((socket) => ({ socket })) })),
    sentinel: ({ addresses, name }) =>
      connected(library.createSentinel({ name, sentinelRootNodes: [...addresses] })),
  }
}

/** What goes wrong is told by the promises of the calls. */
function ignored(): void {}
