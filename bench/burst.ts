/** Many calls at once on one Redis server: the time to the last answer, and whether limits hold. */

import { startRedis } from '../test/support/servers/redis.ts'
import { packageVersion, redisVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { median } from './harness/rounds.ts'
import { OURS, PEER, YARDSTICK } from './parts/burst/plan.ts'
import {
  type BurstFound,
  type BurstSituation,
  compareBurst,
  exactnessTable,
  findBurst,
} from './parts/burst/situations.ts'

export const part: Part = {
  name: 'burst',
  title: 'Many calls at once, warm and at first use',
  compares:
    "Tidegate with its default options against rate-limiter-flexible's `RateLimiterRedis`, each " +
    'in processes of its own on the same Redis server with the same ioredis: 10,000 calls at ' +
    'once, and the first calls of a fresh process while its client connects. One pipeline of ' +
    'bare `EVALSHA` commands, a small script for each call, shows what the client and the server ' +
    'can do without a limiter.',
  async run(run) {
    run.uses('Redis', redisVersion())
    for (const name of ['ioredis', 'rate-limiter-flexible']) {
      run.uses(name, packageVersion(name) ?? 'unknown')
    }
    const server = await startRedis()
    run.onStop(() => server.stop())
    const setting = { url: server.url, rounds: run.isQuick ? 2 : 9 }
    const found: BurstFound[] = []
    for (const situation of situations) {
      const each = await findBurst(run, situation, setting)
      found.push(each)
      compareBurst(run, each)
    }
    exactnessTable(run, found)
    draw(run, found)
    run.note(
      'A burst is over when its last call is answered. At first use, the time begins before the ' +
        'client is made, so it has the connection and the loading of the script in it.',
    )
    run.note(
      'The longest turn of the event loop is how long a burst keeps the process from anything ' +
        'else; it has the calls themselves in it. The goal is 20 ms.',
    )
  },
}

/** The bare yardstick may be at most 3 times as fast. */
const AIM_BARE = 0.34

const situations: readonly BurstSituation[] = [
  {
    name: 'one-key',
    what: '10,000 at once on one key',
    limit: 3,
    keys: 1,
    asksPerKey: 10_000,
    isFirstUse: false,
    aims: { [PEER]: 2 },
  },
  {
    name: '2000-keys',
    what: '10,000 at once on 2,000 keys',
    limit: 3,
    keys: 2_000,
    asksPerKey: 5,
    isFirstUse: false,
    aims: { [PEER]: 2, [YARDSTICK]: AIM_BARE },
  },
  {
    name: 'first-500',
    what: 'first use, 500 at once on one key',
    limit: 100,
    keys: 1,
    asksPerKey: 500,
    isFirstUse: true,
    aims: {},
  },
  {
    name: 'first-2000',
    what: 'first use, 2,000 at once on one key',
    limit: 3,
    keys: 1,
    asksPerKey: 2_000,
    isFirstUse: true,
    aims: {},
  },
]

function draw(run: Run, found: readonly BurstFound[]): void {
  run.chart({
    name: 'burst',
    title: 'Many calls at once: how long until the last answer',
    kind: 'bars',
    xLabel: 'burst',
    yLabel: 'milliseconds from the first call to the last answer',
    series: [OURS, PEER, YARDSTICK].map((name) => ({
      name,
      isOurs: name === OURS,
      points: found.map(({ situation, rounds }) => ({
        x: situation.what,
        y: median((rounds.get(name) ?? []).map(({ elapsedMs }) => elapsedMs)),
      })),
    })),
  })
}
