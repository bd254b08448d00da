/** A master with replicas under the watch of real Sentinels, all on the loopback address. */

import { type Place, placeOf } from './place.ts'
import { type RedisServer, startRedis, startServer } from './redis.ts'
import { type RedisFlavor, redisBinary } from './redis-binary.ts'
import { makeFolder } from './server-process.ts'
import { until } from './until.ts'

export interface RedisSentinelOptions {
  readonly flavor?: RedisFlavor
  readonly replicas?: number
  readonly sentinels?: number
  /**
   * The time after which a silent master is considered down. Default: so long that a stall of the
   * machine is not a failover.
   */
  readonly downAfterMs?: number
  readonly args?: readonly string[]
  /**
   * Places of the master and the replicas, in turn, the master first. Default: the loopback
   * address.
   */
  readonly places?: readonly Place[]
  /** Places of the Sentinels, in turn. Default: the loopback address. */
  readonly sentinelPlaces?: readonly Place[]
}

export interface RedisSentinel {
  /** The name of the master. */
  readonly name: string
  /** The master and the replicas as they were at the start, the master first. */
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]
  /** The list of Sentinels for clients. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  /** The current master according to the Sentinels. */
  master(): Promise<RedisServer>
  stop(): Promise<void>
}

const NAME = 'tidegate'

const DOWN_AFTER_MS = 30_000

/** A failed election is repeated after twice this time, which must be within that of `until`. */
const FAILOVER_TIMEOUT_MS = 5_000

export async function startSentinel(options: RedisSentinelOptions = {}): Promise<RedisSentinel> {
  const { replicas = 2, sentinels: sentinelCount = 3 } = options
  const servers = await startServers(replicas + 1, options)
  const sentinels: RedisServer[] = []
  const group: RedisSentinel = {
    name: NAME,
    servers,
    sentinels,
    get addresses() {
      return sentinels.map(({ host, port }) => ({ host, port }))
    },
    async master() {
      const address = await masterAddress(sentinels)
      const master = servers.find(({ host, port }) => `${host}:${port}` === address)
      if (master === undefined) throw new Error(`the Sentinels name an unknown master: ${address}`)
      return master
    },
    stop: async () =>
      void (await Promise.all([...sentinels, ...servers].map((server) => server.stop()))),
  }
  try {
    const started = Array.from({ length: sentinelCount }, (_, index) =>
      startOneSentinel(index, servers[0], sentinelCount, options),
    )
    sentinels.push(...(await Promise.all(started)))
    const ready = sentinels.map((sentinel) =>
      until('the Sentinels know all', () => knowsAll(sentinel, replicas, sentinelCount - 1)),
    )
    await Promise.all(ready)
  } catch (error) {
    await group.stop()
    throw error
  }
  return group
}

async function startServers(count: number, options: RedisSentinelOptions): Promise<RedisServer[]> {
  const { flavor = 'redis', args = [], places } = options
  const started = Array.from({ length: count }, (_, index) =>
    startRedis({ flavor, args, place: placeOf(places, index) }),
  )
  const [master, ...replicas] = await Promise.all(started)
  if (master === undefined) return []
  await Promise.all(
    replicas.map(async (replica) => {
      await replica.command('REPLICAOF', master.host, master.port)
      await until('replicas are in step', async () =>
        String(await replica.command('INFO', 'replication')).includes('master_link_status:up'),
      )
    }),
  )
  return [master, ...replicas]
}

function startOneSentinel(
  index: number,
  master: RedisServer | undefined,
  sentinelCount: number,
  { flavor, downAfterMs = DOWN_AFTER_MS, sentinelPlaces }: RedisSentinelOptions,
): Promise<RedisServer> {
  const quorum = Math.floor(sentinelCount / 2) + 1
  return startServer({
    binary: redisBinary(flavor),
    folder: makeFolder(),
    place: placeOf(sentinelPlaces, index),
    config: (port) => [
      `port ${port}`,
      `sentinel monitor ${NAME} ${master?.host} ${master?.port} ${quorum}`,
      `sentinel down-after-milliseconds ${NAME} ${downAfterMs}`,
      `sentinel failover-timeout ${NAME} ${FAILOVER_TIMEOUT_MS}`,
    ],
    args: ['--sentinel'],
  })
}

async function knowsAll(sentinel: RedisServer, replicas: number, others: number): Promise<boolean> {
  const [knownReplicas, knownSentinels] = await Promise.all([
    sentinel.command('SENTINEL', 'REPLICAS', NAME),
    sentinel.command('SENTINEL', 'SENTINELS', NAME),
  ])
  return lengthOf(knownReplicas) === replicas && lengthOf(knownSentinels) === others
}

function lengthOf(reply: unknown): number | undefined {
  return Array.isArray(reply) ? reply.length : undefined
}

async function masterAddress(sentinels: readonly RedisServer[]): Promise<string> {
  const asked = sentinels.map((sentinel) =>
    sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME),
  )
  const reply = await Promise.any(asked)
  return Array.isArray(reply) ? reply.join(':') : ''
}
