/** A master with replicas under the watch of real Sentinels, all on the loopback address. */

import { LOOPBACK } from './ports.ts'
import { type RedisServer, startRedis, startServer } from './redis.ts'
import { type RedisFlavor, redisBinary } from './redis-binary.ts'
import { makeFolder } from './server-process.ts'
import { until } from './until.ts'

export interface RedisSentinelOptions {
  readonly flavor?: RedisFlavor
  readonly replicas?: number
  readonly sentinels?: number
  /** After how long a silent master is thought to be down. */
  readonly downAfterMs?: number
  readonly args?: readonly string[]
}

export interface RedisSentinel {
  /** The name that clients ask for. */
  readonly name: string
  /** The master and the replicas as they were at the start, the master first. */
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]
  /** What clients take as their list of Sentinels. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  /** The server that the Sentinels call master now. */
  master(): Promise<RedisServer>
  stop(): Promise<void>
}

const NAME = 'tidegate'

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
      const port = await masterPort(sentinels)
      const master = servers.find((server) => server.port === port)
      if (master === undefined) throw new Error(`the Sentinels name an unknown master at ${port}`)
      return master
    },
    stop: async () =>
      void (await Promise.all([...sentinels, ...servers].map((server) => server.stop()))),
  }
  try {
    const started = Array.from({ length: sentinelCount }, () =>
      startOneSentinel(servers[0]?.port ?? 0, sentinelCount, options),
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
  const { flavor = 'redis', args = [] } = options
  const start = () => startRedis({ flavor, args })
  const [master, ...replicas] = await Promise.all(Array.from({ length: count }, start))
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
  masterPort: number,
  sentinelCount: number,
  { flavor, downAfterMs = 1000 }: RedisSentinelOptions,
): Promise<RedisServer> {
  const quorum = Math.floor(sentinelCount / 2) + 1
  return startServer({
    binary: redisBinary(flavor),
    folder: makeFolder(),
    config: (port) => [
      `bind ${LOOPBACK}`,
      `port ${port}`,
      `sentinel monitor ${NAME} ${LOOPBACK} ${masterPort} ${quorum}`,
      `sentinel down-after-milliseconds ${NAME} ${downAfterMs}`,
      `sentinel failover-timeout ${NAME} ${downAfterMs * 10}`,
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

async function masterPort(sentinels: readonly RedisServer[]): Promise<number> {
  const asked = sentinels.map((sentinel) =>
    sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME),
  )
  const reply = await Promise.any(asked)
  return Array.isArray(reply) ? Number(reply[1]) : 0
}
