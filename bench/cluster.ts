/** Decisions on Redis Clusters, at several numbers of calls in flight, of keys and of masters. */

import { Cluster, Redis } from 'ioredis'
import { startCluster } from '../test/support/servers/cluster.ts'
import { startRedis } from '../test/support/servers/redis.ts'
import { packageVersion, redisVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { takeTurns } from './harness/rounds.ts'
import { measureChanges } from './parts/cluster/changes.ts'
import { measureMasters } from './parts/cluster/masters.ts'
import { evenKeys, zipfKeys } from './parts/load/draws.ts'
import {
  measure,
  OURS,
  PEER,
  type RedisCaller,
  redisCallers,
  YARDSTICK,
} from './parts/redis/load.ts'
import { compareOnRedis, medianOf, type RedisSituation } from './parts/redis/situations.ts'

const KEYS = 10_000

export const part: Part = {
  name: 'cluster',
  title: 'Decisions on a Redis Cluster of three masters',
  compares:
    "One process with 8 to 2,000 calls in flight, against rate-limiter-flexible's " +
    '`RateLimiterRedis` on the same three masters and the same ioredis client. A bare `INCR` ' +
    'shows what the client and the servers can do at most.',
  async run(run) {
    run.uses('Redis', redisVersion())
    for (const name of ['ioredis', 'rate-limiter-flexible']) {
      run.uses(name, packageVersion(name) ?? 'unknown')
    }
    const { client, servers } = await openCluster(run, 3)
    const rounds = run.isQuick ? 2 : 5
    const found = await compareOnRedis(run, situations(run), { client, servers, rounds })
    const busy = found.find(({ situation }) => situation.name === 'cluster-256-uniform')
    if (busy === undefined) return
    run.chart({
      name: 'cluster',
      title: 'Decisions on a Redis Cluster of three masters',
      kind: 'bars',
      xLabel: 'limiter',
      yLabel: 'decisions per second, 10,000 keys, 256 calls in flight',
      series: [OURS, PEER, YARDSTICK].map((name) => ({
        name,
        isOurs: name === OURS,
        points: [{ x: busy.situation.what, y: medianOf(busy, name, 'perSecond') }],
      })),
    })
    await compareWithOneServer(run, client, rounds)
    await measureChanges(run)
    await measureMasters(run)
  },
}

function situations({ isQuick }: Run): RedisSituation[] {
  const calls = isQuick ? 8_000 : 24_000
  const even = [
    { inFlight: 8 },
    { inFlight: 32, aim: 1.3 },
    { inFlight: 256, aim: 3 },
    { inFlight: 2_000, aim: 6 },
  ].map((one) => ({
    ...one,
    name: `cluster-${one.inFlight}-uniform`,
    what: `10,000 keys, ${one.inFlight.toLocaleString('en')} in flight`,
    calls: one.inFlight < 32 ? calls / 3 : calls,
    keys: evenKeys(KEYS),
    limitPerMinute: 60_000,
    ...(one.inFlight < 32 && { reason }),
  }))
  const zipf = {
    name: 'cluster-256-zipf',
    what: "10,000 keys by Zipf's law (1.1), 256 in flight",
    inFlight: 256,
    calls: calls * 2,
    keys: zipfKeys(KEYS, 1.1, calls),
    limitPerMinute: 1e9,
    aim: 5,
  }
  return [...even, zipf]
}

const reason =
  'With a few calls in flight each is a command of its own, as it is for the peer, and a script ' +
  'that computes a bucket takes Redis longer than one that counts.'

async function openCluster(run: Run, masters: number) {
  run.progress(`starts a cluster of ${masters}`)
  const cluster = await startCluster({ masters, replicasPerMaster: 0 })
  run.onStop(() => cluster.stop())
  const client = new Cluster([...cluster.addresses])
  const servers = cluster.masters.map(({ url }) => new Redis(url))
  for (const each of [client, ...servers]) run.onStop(() => each.disconnect())
  return { client, servers }
}

/** Tidegate on the cluster against Tidegate on one server. */
async function compareWithOneServer(run: Run, cluster: Cluster, rounds: number): Promise<void> {
  const server = await startRedis()
  run.onStop(() => server.stop())
  const alone = new Redis(server.url)
  run.onStop(() => alone.disconnect())
  const load = { inFlight: 256, calls: run.isQuick ? 8_000 : 24_000, keys: evenKeys(KEYS) }
  // One limiter for all rounds, as in the other situations, so that its first calls do not count.
  const callers = { cluster: ours(cluster), 'one server': ours(alone) }
  const contenders = Object.entries(callers).map(([name, caller]) => ({
    name,
    run: () => measure(caller, load, async () => 0),
  }))
  const what = 'Cluster against one server, 256 in flight'
  const figures = await takeTurns(run, what, contenders, rounds)
  const peers = figures.get('one server') ?? []
  run.compared({
    name: 'cluster-one-server',
    what,
    ours: 'Tidegate on three masters',
    peer: 'Tidegate on one server',
    unit: 'decisions per second',
    rounds: (figures.get('cluster') ?? []).map(({ perSecond }, at) => ({
      ours: perSecond,
      peer: peers[at]?.perSecond ?? Number.NaN,
    })),
    aim: 0.7,
    reason: 'All masters, the client and the load share two cores, and each master is woken apart.',
  })
}

function ours(client: Redis | Cluster): RedisCaller {
  const [first] = redisCallers(client, 60_000)
  if (first === undefined) throw new Error('there is no caller')
  return { ...first, name: 'one limit' }
}
