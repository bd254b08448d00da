/**
 * A store from settings, with its own connections. It opens also while Redis is away: decisions are
 * then made as their limits declare, and by Redis as soon as it is there.
 */

import type { ConnectionOptions } from 'node:tls'
import { Cluster, Redis } from 'ioredis'
import { frontStore, type GuardedOptions, memoryStore, type Store } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import type { StoreMode } from '../policy/store-section.ts'

export interface StoreSettings {
  readonly mode: StoreMode
  /**
   * `host:port` of the server, of Sentinels, or of some nodes of the cluster. That of a single
   * server may be the path of its Unix socket.
   */
  readonly addresses: readonly string[]
  readonly sentinelName?: string
  readonly username?: string
  readonly password?: string
  readonly sentinelPassword?: string
  readonly database?: number
  readonly tls?: ConnectionOptions
  readonly prefix?: string
  readonly durability?: 'memory' | 'replicated'
}

export interface OpenStore {
  /** With deadline, breaker and leases in front. */
  readonly store: Store
  /** For people, such as `redis cluster at a:1, b:2`. */
  readonly description: string
  /** Whether it would answer now, as far as its connection tells. */
  isConnected(): boolean
  /** Resolves when every server has answered; rejects if that takes longer than a second. */
  ready(): Promise<void>
  /** Gives leases back and closes the connections. */
  close(): Promise<void>
}

export interface StoreEvents extends GuardedOptions {
  /** Called when a connection fails; the client connects again by itself. */
  readonly onConnectionError?: (error: Error) => void
}

/** A healthy server answers in a millisecond; one that takes a second hangs. */
const SOCKET_TIMEOUT_MS = 1_000

/** Long enough to spread many processes, short enough to be back within a second. */
const RECONNECT_MS_MAX = 500

/** How long closing waits for leases to be given back: their lifetime would do it, too. */
const CLOSE_MS_MAX = 1_000

/** How long a start waits for Redis, so that the first requests are counted; then it goes on. */
const CONNECT_MS_MAX = 1_000

type Client = Redis | Cluster

export function createStore(settings: StoreSettings, events: StoreEvents = {}): OpenStore {
  const { onConnectionError, ...guarded } = events
  if (settings.mode === 'memory') return openMemory()
  const client = connect(settings)
  client.on('error', (error: Error) => onConnectionError?.(error))
  const { prefix, durability } = settings
  const redis = redisStore(client, {
    ...(prefix === undefined ? undefined : { prefix }),
    ...(durability === undefined ? undefined : { durability }),
  })
  const store = frontStore(redis, guarded)
  return {
    store,
    description: `redis ${settings.mode} at ${settings.addresses.join(', ')}`,
    isConnected: () => client.status === 'ready',
    ready: async () => store.ready?.(CONNECT_MS_MAX),
    async close() {
      await Promise.race([
        Promise.resolve(store.close()).catch(() => undefined),
        timeIsUp(CLOSE_MS_MAX),
      ])
      client.disconnect()
    },
  }
}

function openMemory(): OpenStore {
  const store = memoryStore()
  return {
    store,
    description: 'memory of this process',
    isConnected: () => true,
    ready: async () => undefined,
    close: async () => store.close(),
  }
}

/** What every connection has: https://github.com/redis/ioredis, and docs/redis.md for the why. */
function connectionOptions(settings: StoreSettings) {
  const { username, password, database, tls } = settings
  return {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    socketTimeout: SOCKET_TIMEOUT_MS,
    connectTimeout: SOCKET_TIMEOUT_MS,
    retryStrategy: reconnectMs,
    ...(username === undefined ? undefined : { username }),
    ...(password === undefined ? undefined : { password }),
    ...(database === undefined ? undefined : { db: database }),
    ...(tls === undefined ? undefined : { tls }),
  }
}

function connect(settings: StoreSettings): Client {
  const [first = ''] = settings.addresses
  const nodes = settings.addresses.map(hostAndPort)
  const options = connectionOptions(settings)
  switch (settings.mode) {
    case 'cluster':
      return new Cluster([...nodes], {
        enableOfflineQueue: false,
        retryDelayOnFailover: 0,
        retryDelayOnClusterDown: 0,
        retryDelayOnTryAgain: 5,
        clusterRetryStrategy: reconnectMs,
        redisOptions: options,
        // Certificates name hosts, and a cluster tells addresses.
        ...(settings.tls === undefined ? undefined : { dnsLookup: asGiven }),
      })
    case 'sentinel':
      return new Redis({
        ...options,
        sentinels: [...nodes],
        name: settings.sentinelName ?? '',
        sentinelCommandTimeout: 500,
        sentinelRetryStrategy: reconnectMs,
        ...(settings.sentinelPassword === undefined
          ? undefined
          : { sentinelPassword: settings.sentinelPassword }),
        ...(settings.tls === undefined ? undefined : { enableTLSForSentinelMode: false }),
      })
    default:
      return new Redis({ ...options, ...(first.startsWith('/') ? { path: first } : nodes[0]) })
  }
}

function reconnectMs(): number {
  return Math.random() * RECONNECT_MS_MAX
}

function asGiven(address: string, callback: (error: null, address: string) => void): void {
  callback(null, address)
}

function hostAndPort(address: string): { host: string; port: number } {
  const colonAt = address.lastIndexOf(':')
  const host = address.slice(0, colonAt).replace(/^\[(.*)\]$/, '$1')
  return { host, port: Number(address.slice(colonAt + 1)) }
}

function timeIsUp(durationMs: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, durationMs))
}
