/** Decisions on one Redis server, at several numbers of calls in flight and of keys. */

import { Redis } from 'ioredis'
import { startRedis } from '../test/support/servers/redis.ts'
import { packageVersion, redisVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { evenKeys, zipfKeys } from './parts/load/draws.ts'
import { OURS, PEER, YARDSTICK } from './parts/redis/load.ts'
import {
  compareOnRedis,
  medianOf,
  type RedisFound,
  type RedisSituation,
} from './parts/redis/situations.ts'

export const part: Part = {
  name: 'redis',
  title: 'Decisions on one Redis server',
  compares:
    "One process against rate-limiter-flexible's `RateLimiterRedis`, on the same server and " +
    'the same ioredis client, with 1 to 256 calls in flight: over 10,000 keys that are asked for ' +
    "equally often, over 10,000 by Zipf's law, and over a single one. A bare pipelined `INCR` " +
    'shows what the client and the server can do at most.',
  async run(run) {
    run.uses('Redis', redisVersion())
    for (const name of ['ioredis', 'rate-limiter-flexible']) {
      run.uses(name, packageVersion(name) ?? 'unknown')
    }
    const server = await startRedis()
    run.onStop(() => server.stop())
    const client = new Redis(server.url)
    const observer = new Redis(server.url)
    for (const each of [client, observer]) run.onStop(() => each.disconnect())
    const found = await compareOnRedis(run, situations(run), {
      client,
      servers: [observer],
      rounds: run.isQuick ? 2 : 5,
    })
    drawInFlight(run, found.slice(0, inFlights.length))
    drawKeys(run, found)
    run.note(
      'With many calls in flight, Tidegate judges many of them in one script call. With one ' +
        'there is nothing to gather, and a decision costs one round trip, as it does for ' +
        'everybody.',
    )
    run.note(
      'A key that is asked for very often is answered from units that Redis has set aside for ' +
        'the process, exactly: see [hot keys](hot-keys.md).',
    )
  },
}

const KEYS = 10_000

/** With few in flight, the two are almost even, and the machine changes its speed in seconds. */
const FEW = 8
const SHORT_ROUNDS = 3

const inFlights = [
  { inFlight: 1, aim: 0.95 },
  { inFlight: 8, aim: 1.1 },
  { inFlight: 32, aim: 1.5 },
  { inFlight: 256, aim: 4 },
]

function situations({ isQuick }: Run): RedisSituation[] {
  const calls = isQuick ? 8_000 : 60_000
  const alone = isQuick ? 1_000 : 15_000
  const even = inFlights.map(({ inFlight, aim }) => ({
    name: `redis-${inFlight}-uniform`,
    what: `10,000 keys, ${inFlight} in flight`,
    inFlight,
    calls: inFlight === 1 ? alone : calls,
    keys: evenKeys(KEYS),
    limitPerMinute: 60_000,
    aim,
    ...(inFlight <= FEW && { shortRounds: SHORT_ROUNDS }),
    ...(inFlight < 256 && { reason: inFlight === 1 ? reasonAlone : reasonFew }),
  }))
  const uneven = [1, 32, 256].flatMap((inFlight) => {
    const rest = { inFlight, calls: inFlight === 1 ? alone : calls * 2, limitPerMinute: 1e9 }
    const keys = zipfKeys(KEYS, 1.1, calls)
    return [
      {
        ...rest,
        name: `redis-${inFlight}-zipf`,
        what: `10,000 keys by Zipf's law (1.1), ${inFlight} in flight`,
        keys,
      },
      {
        ...rest,
        name: `redis-${inFlight}-one-key`,
        what: `one key, ${inFlight} in flight`,
        keys: ['user:0'],
      },
    ]
  })
  return [...even, ...uneven]
}

const reasonAlone =
  'With one call in flight the time is that of the round trip, and a script that computes a ' +
  'bucket takes Redis longer than one that counts.'

const reasonFew =
  'With a few calls in flight few travel together, and a script that computes a bucket takes ' +
  'Redis longer than one that counts.'

function drawInFlight(run: Run, found: readonly RedisFound[]): void {
  run.chart({
    name: 'redis-in-flight',
    title: 'Decisions on one Redis server, 10,000 keys',
    kind: 'lines',
    xLabel: 'calls in flight',
    yLabel: 'decisions per second',
    isLogX: true,
    series: [OURS, PEER, YARDSTICK].map((name) => ({
      name,
      isOurs: name === OURS,
      points: found.map((each) => ({
        x: each.situation.inFlight,
        y: medianOf(each, name, 'perSecond'),
      })),
    })),
  })
}

function drawKeys(run: Run, found: readonly RedisFound[]): void {
  const busy = found.filter(({ situation }) => situation.inFlight === 256)
  run.chart({
    name: 'redis-keys',
    title: 'Decisions on one Redis server, 256 calls in flight',
    kind: 'bars',
    xLabel: 'keys',
    yLabel: 'decisions per second',
    series: [OURS, PEER, YARDSTICK].map((name) => ({
      name,
      isOurs: name === OURS,
      points: busy.map((each) => ({
        x: each.situation.what.replace(', 256 in flight', ''),
        y: medianOf(each, name, 'perSecond'),
      })),
    })),
  })
}
