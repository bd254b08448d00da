/** The effect of a flood of one key on another key of the same server. */

import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createLimiter, type Limiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { startHotWorkers } from '../../../test/redis/hot-workers.ts'
import type { RedisServer } from '../../../test/support/servers/redis.ts'
import { moveToCore, setCoreAside } from '../../harness/cores.ts'
import { verdictOf } from '../../harness/figures.ts'
import type { Run } from '../../harness/part.ts'
import { median } from '../../harness/rounds.ts'

/** The interval between two calls of the neighbour: 200 per second. */
const INTERVAL_MS = 5

export async function measureNeighbour(run: Run, { url, pid }: RedisServer): Promise<void> {
  const client = new Redis(url)
  run.onStop(() => client.disconnect())
  const limiter = createLimiter({
    limit: tokenBucket({ limit: 1_000_000, per: '1s', accuracy: 'exact' }),
    store: redisStore(client, { prefix: 'neighbour' }),
    deadlineMs: 1_000,
  })
  const plan = { algorithm: 'tokenBucket', limit: 1_000_000_000, perMs: 1_000 } as const
  const flood = await startHotWorkers(1, { ...plan, library: 'tidegate', url })
  run.onStop(() => flood.stop())
  // Kept off this core as if it came from another machine; only its effect on the server counts.
  const core = setCoreAside(run, [pid])
  for (const child of flood.processes) moveToCore(core, child.pid)
  const measuredMs = run.isQuick ? 300 : 1_000
  const quiet: number[] = []
  const flooded: number[] = []
  for (let turn = 0; turn < (run.isQuick ? 1 : 5); turn++) {
    run.progress(`another key beside a flood, round ${turn + 1}`)
    quiet.push(await p99Ms(limiter, measuredMs))
    const flooding = flood.run({ durationMs: measuredMs * 1.5 })
    flooded.push(await p99Ms(limiter, measuredMs))
    await flooding
  }
  await flood.stop()
  const ratio = median(flooded) / median(quiet)
  run.table({
    name: 'hot-keys-neighbour',
    title: 'Another key on the same server, 200 calls per second, p99 in ms',
    columns: [
      { name: 'alone', digits: 2 },
      { name: 'beside a flood', digits: 2 },
      { name: 'times', digits: 2 },
      { name: 'aim: at most 2' },
    ],
    rows: [
      {
        name: 'Tidegate',
        isOurs: true,
        cells: [median(quiet), median(flooded), ratio, verdictOf(ratio <= 2)],
      },
    ],
  })
}

async function p99Ms(limiter: Pick<Limiter, 'check'>, durationMs: number): Promise<number> {
  const times: number[] = []
  const endMs = performance.now() + durationMs
  while (performance.now() < endMs) {
    const startMs = performance.now()
    await limiter.check('neighbour')
    times.push(performance.now() - startMs)
    await sleep(INTERVAL_MS)
  }
  times.sort((one, other) => one - other)
  return times[Math.floor(times.length * 0.99)] ?? 0
}
