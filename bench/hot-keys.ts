/** Hot keys on one Redis server, from several processes that ask as fast as they can. */

import { startRedis } from '../test/support/servers/redis.ts'
import { packageVersion, redisVersion } from './harness/machine.ts'
import type { Part } from './harness/part.ts'
import { measureNeighbour } from './parts/hot-keys/neighbour.ts'
import { measureBudget, measureManyKeys, measureSynced } from './parts/hot-keys/promises.ts'
import { compareHotKeys } from './parts/hot-keys/situations.ts'

export const part: Part = {
  name: 'hot-keys',
  title: 'Hot keys, several processes on one Redis server',
  compares:
    'Processes that ask for the same few keys as fast as they can, against ' +
    "rate-limiter-flexible's `RateLimiterRedis` on the same server. Then whether a budget is " +
    'spent to the end by eight processes and never exceeded, what memory many keys take, and ' +
    'what a flood of one key, from a core of its own, does to another key on the same server.',
  async run(run) {
    run.uses('Redis', redisVersion())
    for (const name of ['ioredis', 'rate-limiter-flexible']) {
      run.uses(name, packageVersion(name) ?? 'unknown')
    }
    const server = await startRedis()
    run.onStop(() => server.stop())
    await compareHotKeys(run, server)
    await measureManyKeys(run, server)
    if (run.isQuick) {
      run.skipped("The budget of eight processes and accuracy 'synced': too long for a quick run")
    } else {
      await measureBudget(run, server)
      await measureSynced(run, server)
    }
    // Runs last, because it leaves one core to the flood.
    await measureNeighbour(run, server)
  },
}
