/**
 * Opens a store from settings, with its own connections. It also opens while Redis is unavailable:
 * until Redis answers, each limit decides as its `onStoreError` declares.
 */

import type { ConnectionOptions } from 'node:tls'
import { Cluster, Redis } from 'ioredis'
import { frontStore, type GuardedOptions, memoryStore, type Store, TidegateError } from 'tidegate'
import {
  type IdempotencyStore,
  memoryIdempotencyStore,
  redisIdempotencyStore,
} from 'tidegate/idempotency'
import { redisStore } from 'tidegate/redis'
import type { StoreMode } from '../policy/schema/store-section.ts'
import { WarmUp } from './warm-up.ts'

export interface StoreSettings {
  readonly mode: StoreMode
  /**
   * `host:port` of the server, of Sentinels, or of nodes of the cluster. For a single server, it
   * may be the path of a Unix socket.
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
  /** The slots of a cluster that keys share. */
  readonly buckets?: number
}

export interface OpenStore {
  /** With deadline, breaker and leases in front. */
  readonly store: Store
  /**
   * The store of idempotency keys, opened when it is first asked for. It has connections of its
   * own, because a kept response is large, and would delay decisions.
   */
  keyStore(): IdempotencyStore
  /**
   * The counters without a front, and scripts, for work in the background: opened when it is first
   * asked for, with connections of its own, because it would delay decisions.
   */
  background(): BackgroundStore
  /** For people, such as `redis cluster at a:1, b:2`. */
  readonly description: string
  /** Whether the connection is open. */
  isConnected(): boolean
  /** The number of open connections to each server. */
  connections(): Readonly<Record<string, number>>
  /** Whether the connection is open, and every server has answered since the store was opened. */
  isReady(): boolean
  /** Resolves when every server has answered; rejects if that takes longer than a second. */
  ready(): Promise<void>
  /** Returns leases and closes the connections. */
  close(): Promise<void>
}

export interface BackgroundStore {
  /** Whether the connection is open. */
  isConnected(): boolean
  /** Rejects if the server does not answer. */
  readonly store: Store
  /** Runs a script. Its keys have a prefix that puts them into one slot. */
  run(script: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
}

export interface StoreOptions extends GuardedOptions {
  /** Called when a connection fails; the client connects again by itself. */
  readonly onConnectionError?: (error: Error) => void
}

/**
 * A healthy server answers in a millisecond; one that takes a second hangs. With a longer deadline,
 * the connection is left when the deadline is over: calls would lose their answers before.
 */
const SOCKET_TIMEOUT_MS = 1_000

/** Long enough to spread many processes, short enough to be back within a second. */
const RECONNECT_MS_MAX = 500

/** How long closing waits for leases to be returned; those that are not expire by themselves. */
const CLOSE_MS_MAX = 1_000

/** How long a start waits for Redis, so that the first requests are counted. */
const CONNECT_MS_MAX = 1_000

/** The longest prefix that the stores of the library take. */
const PREFIX_LENGTH_MAX = 32

type Client = Redis | Cluster

export function createStore(settings: StoreSettings, options: StoreOptions = {}): OpenStore {
  const { onConnectionError, ...guarded } = options
  if (settings.mode === 'memory') return openMemory()
  const client = connect(settings, options.deadlineMs)
  client.on('error', (error: Error) => onConnectionError?.(error))
  const { durability } = settings
  const redis = redisStore(client, {
    ...countersOf(settings),
    ...(durability === undefined ? undefined : { durability }),
  })
  const store = frontStore(redis, guarded)
  const keys = keyStoreOf(settings, options)
  const background = backgroundOf(settings, options)
  const warmUp = new WarmUp(async () => store.capabilities?.ready?.(CONNECT_MS_MAX))
  return {
    store,
    keyStore: keys.open,
    background: background.open,
    description: `redis ${settings.mode} at ${settings.addresses.join(', ')}`,
    isConnected: () => client.status === 'ready',
    connections: () => connectionsOf(client),
    isReady: () => client.status === 'ready' && warmUp.isDone,
    ready: () => warmUp.firstAttempt,
    async close() {
      warmUp.stop()
      await Promise.race([
        Promise.resolve(store.close()).catch(() => undefined),
        timeIsUp(CLOSE_MS_MAX),
      ])
      client.disconnect()
      keys.close()
      background.close()
    },
  }
}

/** Options that decide which keys the counters have. */
function countersOf({ prefix, buckets }: StoreSettings) {
  return {
    ...(prefix === undefined ? undefined : { prefix }),
    ...(buckets === undefined ? undefined : { buckets }),
  }
}

function backgroundOf(settings: StoreSettings, { onConnectionError }: StoreOptions) {
  const { prefix = 'tg' } = settings
  let client: Client | undefined
  let opened: BackgroundStore | undefined
  return {
    open(): BackgroundStore {
      if (opened !== undefined) return opened
      const connected = connect(settings)
      client = connected
      connected.on('error', (error: Error) => onConnectionError?.(error))
      opened = {
        isConnected: () => connected.status === 'ready',
        store: redisStore(connected, countersOf(settings)),
        run: (script, keys, args) => {
          const names = keys.map((key) => `${prefix}:{x}:${key}`)
          return connected.eval(script, names.length, ...names, ...args)
        },
      }
      return opened
    },
    close: () => client?.disconnect(),
  }
}

function keyStoreOf(settings: StoreSettings, options: StoreOptions) {
  const { deadlineMs, breaker, observer, onConnectionError } = options
  let client: Client | undefined
  let opened: IdempotencyStore | undefined
  const { prefix = 'tg', durability } = settings
  return {
    open(): IdempotencyStore {
      if (opened !== undefined) return opened
      client = connect(settings, deadlineMs)
      client.on('error', (error: Error) => onConnectionError?.(error))
      opened = redisIdempotencyStore(client, {
        // One character that no digest of a counter begins with.
        prefix: `${prefix}:i`.slice(0, PREFIX_LENGTH_MAX),
        ...(deadlineMs === undefined ? undefined : { deadlineMs }),
        ...(durability === undefined ? undefined : { durability }),
        ...(breaker === undefined ? undefined : { breaker }),
        ...(observer === undefined ? undefined : { observer }),
      })
      return opened
    },
    close: () => client?.disconnect(),
  }
}

/** By address on a cluster; otherwise there is one server, `main`. */
function connectionsOf(client: Client): Readonly<Record<string, number>> {
  if (client instanceof Redis) return { main: client.status === 'ready' ? 1 : 0 }
  const nodes = client.nodes('master').map(({ options, status }) => {
    return [`${options.host}:${options.port}`, status === 'ready' ? 1 : 0] as const
  })
  return Object.fromEntries(nodes)
}

function openMemory(): OpenStore {
  const store = memoryStore()
  let keys: IdempotencyStore | undefined
  return {
    store,
    keyStore: () => {
      keys ??= memoryIdempotencyStore()
      return keys
    },
    background: () => ({
      isConnected: () => true,
      store,
      run: () => Promise.reject(new TidegateError('wrong-use', 'memory runs no scripts')),
    }),
    description: 'memory of this process',
    isConnected: () => true,
    connections: () => ({}),
    isReady: () => true,
    ready: async () => undefined,
    close: async () => store.close(),
  }
}

/** Options of every connection: https://github.com/redis/ioredis; docs/redis.md has the reasons. */
function connectionOptions(settings: StoreSettings, deadlineMs: number) {
  const { username, password, database, tls } = settings
  return {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    socketTimeout: Math.max(SOCKET_TIMEOUT_MS, deadlineMs),
    connectTimeout: SOCKET_TIMEOUT_MS,
    retryStrategy: reconnectMs,
    ...(username === undefined ? undefined : { username }),
    ...(password === undefined ? undefined : { password }),
    ...(database === undefined ? undefined : { db: database }),
    ...(tls === undefined ? undefined : { tls }),
  }
}

function connect(settings: StoreSettings, deadlineMs = 0): Client {
  const [first = ''] = settings.addresses
  const nodes = settings.addresses.map(hostAndPort)
  const options = connectionOptions(settings, deadlineMs)
  switch (settings.mode) {
    case 'cluster':
      return new Cluster([...nodes], {
        enableOfflineQueue: false,
        retryDelayOnFailover: 0,
        retryDelayOnClusterDown: 0,
        retryDelayOnTryAgain: 5,
        clusterRetryStrategy: reconnectMs,
        redisOptions: options,
        // Certificates are for host names, and a cluster announces addresses.
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
