/** The limits, keys and client of a load, as plain data for other processes. */

import { Redis } from 'ioredis'
import {
  createLimiter,
  type Decision,
  type GuardedOptions,
  guardedStore,
  type Limit,
  type Observer,
  type Store,
} from '../../../packages/tidegate/src/index.ts'
import {
  type RedisStoreOptions,
  redisStore,
} from '../../../packages/tidegate/src/stores/redis/redis-store.ts'
import { patientClientKinds, recommendedClientKinds, redisClientKinds } from '../servers/clients.ts'
import type { RedisCluster } from '../servers/cluster.ts'
import type { RedisSentinel } from '../servers/sentinel.ts'

interface Address {
  readonly host: string
  readonly port: number
}

interface Sentinels {
  readonly sentinels: readonly Address[]
  readonly name: string
}

export interface LoadTarget {
  /** The name of one of `redisClientKinds`. */
  readonly client: string
  /** True for the client's default options. Default: the recommended ones. */
  readonly hasDefaultOptions?: boolean
  /** True for clients that a stall does not disconnect, if counts are the subject. */
  readonly isPatient?: boolean
  /** For ioredis with Sentinels: leave a master as soon as they name another. Default: false. */
  readonly hasFailoverDetector?: boolean
  /** A server or a proxy, Sentinels, or nodes of a cluster. */
  readonly redis: Address | Sentinels | { readonly cluster: readonly Address[] }
  /** Clients of each process, which take turns. Default: 1. */
  readonly connections?: number
  /** Limits by name. Several are charged as a group, with the same key. */
  readonly limits: Readonly<Record<string, Limit>>
  /** If set, each key has only one of the limits, in turn. */
  readonly isApart?: boolean
  /** The number of keys, which are used in turn. */
  readonly keys: number
  readonly guard?: Omit<GuardedOptions, 'observer'>
  readonly storeOptions?: Omit<RedisStoreOptions, 'clock'>
}

/** Makes a check of the key with this number, with the client of this turn. */
export type Checker = (turn: number, key: number) => Promise<Decision>

export async function makeChecker(target: LoadTarget, observer: Observer): Promise<Checker> {
  const { connections = 1, storeOptions } = target
  const guard = { ...target.guard, observer }
  const connected = Array.from({ length: connections }, () => connect(target))
  const checks = (await Promise.all(connected)).map((each) =>
    checksOfStore(target, guardedStore(redisStore(each.client, storeOptions), guard)),
  )
  return (turn, key) => {
    const ofClient = checks[turn % checks.length] ?? []
    const check = ofClient[key % ofClient.length]
    if (check === undefined) throw new Error('a load needs a limit')
    return check(keyOf(key))
  }
}

function connect(target: LoadTarget) {
  const { client, hasDefaultOptions, hasFailoverDetector, isPatient, redis } = target
  if (hasFailoverDetector === true && 'sentinels' in redis) return connectDetecting(redis)
  const recommended = isPatient === true ? patientClientKinds : recommendedClientKinds
  const kinds = hasDefaultOptions === true ? redisClientKinds : recommended
  const kind = kinds.find(({ name }) => name === client)
  if (kind === undefined) throw new Error(`no such client: ${client}`)
  // Clients use only the addresses and the name.
  if ('cluster' in redis) return kind.cluster({ addresses: redis.cluster } as RedisCluster)
  if ('sentinels' in redis) {
    return kind.sentinel({ addresses: redis.sentinels, name: redis.name } as RedisSentinel)
  }
  return kind.single({ ...redis, password: undefined, tls: undefined })
}

async function connectDetecting({ sentinels, name }: Sentinels) {
  const client = new Redis({
    name,
    sentinels: [...sentinels],
    failoverDetector: true,
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectTimeout: 1000,
    retryStrategy: () => Math.random() * 500,
  })
  client.on('error', () => undefined)
  await client.connect()
  return { client }
}

/** The key with this number. */
export function keyOf(number: number): string {
  return `key-${number}`
}

function checksOfStore(
  { limits, isApart = false }: LoadTarget,
  store: Store,
): ((key: string) => Promise<Decision>)[] {
  const names = Object.keys(limits)
  if (isApart || names.length === 1) {
    return Object.entries(limits).map(([name, limit]) => {
      const limiter = createLimiter({ name, limit, store })
      return (key) => limiter.check(key)
    })
  }
  const limiter = createLimiter({ limits, store })
  return [(key) => limiter.check(Object.fromEntries(names.map((name) => [name, key])))]
}
