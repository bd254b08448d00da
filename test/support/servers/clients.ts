/** Every client that the library supports, connected to the servers of this folder. */

import { setTimeout as sleep } from 'node:timers/promises'
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
export const recommendedClientKinds: readonly RedisClientKind[] = clientKinds(1_000)

/**
 * Clients with the recommended options, but longer timeouts: they leave a server that hangs, and a
 * stall of the machine does not disconnect them.
 */
export const unhurriedClientKinds: readonly RedisClientKind[] = clientKinds(5_000)

/** Clients with the recommended options that no test waits long enough to see a timeout of. */
export const patientClientKinds: readonly RedisClientKind[] = clientKinds(60_000)

/** The timeout of a silent server in ms with the recommended options, or the default options. */
type Settings = 'default' | number

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
function reconnectDelayMs(): number {
  return Math.random() * 500
}

/** A new server of a stalled machine may refuse or drop the first connections. */
const CONNECTS_MAX = 10
const CONNECT_AGAIN_MS = 200

/** The options of ioredis for one server, for Sentinels and for a cluster. */
function ioredisOptions(silentMs: number) {
  const node = {
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    socketTimeout: silentMs,
    connectTimeout: silentMs,
  }
  const single = { ...node, enableOfflineQueue: false, retryStrategy: reconnectDelayMs }
  const cluster = { retryDelayOnFailover: 0, retryDelayOnClusterDown: 0, retryDelayOnTryAgain: 5 }
  return {
    single,
    sentinel: { ...single, sentinelCommandTimeout: silentMs / 2 },
    cluster: { ...cluster, redisOptions: node },
  }
}

/** The options of node-redis for one server, for Sentinels and for a cluster. */
function nodeRedisOptions(silentMs: number) {
  const timeouts = { socketTimeout: silentMs, connectTimeout: silentMs }
  const socket = { ...timeouts, reconnectStrategy: reconnectDelayMs }
  const single = { disableOfflineQueue: true, pingInterval: silentMs / 2, socket }
  const ofSentinels = { pingInterval: silentMs / 5, socket: { socketTimeout: silentMs / 2 } }
  return {
    single,
    sentinel: {
      maxCommandRediscovers: 0,
      nodeClientOptions: single,
      sentinelClientOptions: ofSentinels,
    },
    cluster: { defaults: single, topologyRefreshOnReconnectionAttemptStrategy: 250 },
  }
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
  const recommended = settings === 'default' ? undefined : ioredisOptions(settings)
  // Connects explicitly, so that a failure to connect is a rejection.
  const lazyConnect = true as const
  return {
    name,
    single: ({ host, port, username, password, tls }) =>
      connectIoredis(() =>
        library.single({
          host,
          port,
          ...(username !== undefined && { username }),
          ...(password !== undefined && { password }),
          ...(tls && { tls }),
          lazyConnect,
          ...recommended?.single,
        }),
      ),
    cluster: ({ addresses }) => {
      const options = { lazyConnect, ...recommended?.cluster }
      return connectIoredis(() => library.cluster([...addresses], options))
    },
    sentinel: ({ addresses, name }) => {
      const options = { sentinels: [...addresses], name, lazyConnect }
      return connectIoredis(() => library.single({ ...options, ...recommended?.sentinel }))
    },
  }
}

/** node-redis retries its first connection, and ioredis does not. */
async function connectIoredis(
  make: () => IoredisClient & IoredisConnection,
): Promise<ConnectedClient> {
  for (let connects = 1; ; connects += 1) {
    const client = make()
    client.on('error', ignored)
    try {
      await client.connect()
      return { client, close: () => client.disconnect() }
    } catch (error) {
      client.disconnect()
      if (connects === CONNECTS_MAX || !isDropped(error)) throw error
      await sleep(CONNECT_AGAIN_MS)
    }
  }
}

/** Other errors, such as a wrong password, are final. */
function isDropped(error: unknown): boolean {
  return /is closed|ETIMEDOUT|ECONNRESET|unreachable|refresh slots/.test(String(error))
}

function nodeRedis(name: string, settings: Settings, library: NodeRedis): RedisClientKind {
  const recommended = settings === 'default' ? undefined : nodeRedisOptions(settings)
  const connected = async (client: NodeRedisClient & NodeRedisConnection) => {
    client.on('error', ignored)
    await client.connect()
    return { client, close: () => void client.destroy() }
  }
  const options = ({ host, port, username, password, tls }: RedisAddress & Credentials) => ({
    ...recommended?.single,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    socket: {
      ...recommended?.single.socket,
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
      return connected(library.createCluster({ rootNodes, ...recommended?.cluster }))
    },
    sentinel: ({ addresses, name }) => {
      const options = { name, sentinelRootNodes: [...addresses] }
      return connected(library.createSentinel({ ...options, ...recommended?.sentinel }))
    },
  }
}

/** The promises of the calls report errors. */
function ignored(): void {}
