/** Decisions on a Redis Cluster. */

import { Cluster, Redis } from 'ioredis'
import { startCluster } from '../test/servers/cluster.ts'
import { packageVersion, redisVersion } from './harness/machine.ts'
import type { Part } from './harness/part.ts'
import { evenKeys } from './parts/draws.ts'
import { OURS, PEER, YARDSTICK } from './parts/redis-load.ts'
import { compareOnRedis, medianOf } from './parts/redis-situations.ts'

export const part: Part = {
  name: 'cluster',
  title: 'Decisions on a Redis Cluster of three masters',
  compares:
    "One process with 256 calls in flight over 10,000 keys, against rate-limiter-flexible's " +
    '`RateLimiterRedis` on the same three masters and the same ioredis client. A bare `INCR` ' +
    'shows what the client and the servers can do at most.',
  async run(run) {
    run.uses('Redis', redisVersion())
    for (const name of ['ioredis', 'rate-limiter-flexible']) {
      run.uses(name, packageVersion(name) ?? 'unknown')
    }
    run.progress('starts a cluster')
    const cluster = await startCluster({ masters: 3, replicasPerMaster: 0 })
    run.onStop(() => cluster.stop())
    const client = new Cluster([...cluster.addresses])
    const servers = cluster.masters.map(({ url }) => new Redis(url))
    for (const each of [client, ...servers]) run.onStop(() => each.disconnect())
    const situation = {
      name: 'cluster-256-uniform',
      what: '10,000 keys, 256 in flight',
      inFlight: 256,
      calls: run.isQuick ? 8_000 : 60_000,
      keys: evenKeys(10_000),
      limitPerMinute: 60_000,
      reason:
        'A script reaches one of 16,384 slots only, so calls for different keys cannot be ' +
        'gathered.',
    }
    const rounds = run.isQuick ? 2 : 5
    const [found] = await compareOnRedis(run, [situation], { client, servers, rounds })
    if (found === undefined) return
    run.chart({
      name: 'cluster',
      title: 'Decisions on a Redis Cluster of three masters',
      kind: 'bars',
      xLabel: 'limiter',
      yLabel: 'decisions per second, 10,000 keys, 256 calls in flight',
      series: [OURS, PEER, YARDSTICK].map((name) => ({
        name,
        isOurs: name === OURS,
        points: [{ x: situation.what, y: medianOf(found, name, 'perSecond') }],
      })),
    })
  },
}
