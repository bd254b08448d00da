/** Promises about hot keys that need no peer: budgets, memory, the error of `synced`. */

import { setTimeout as sleep } from 'node:timers/promises'
import { memoryOfKeys } from '../../../test/redis/hot-memory.ts'
import { admittedBySecond, startHotWorkers, sumOf } from '../../../test/redis/hot-workers.ts'
import type { RedisServer } from '../../../test/support/servers/redis.ts'
import { verdictOf } from '../../harness/figures.ts'
import type { Run } from '../../harness/part.ts'

const MEGABYTE = 2 ** 20
const BUDGET_SECONDS = 30

/** Eight processes share a budget: they must spend all of it, and not one unit more. */
export async function measureBudget(run: Run, { url }: RedisServer): Promise<void> {
  run.progress('eight processes, a budget of 1,000 per second')
  const plan = { algorithm: 'tokenBucket', limit: 1_000, perMs: 1_000 } as const
  const workers = await startHotWorkers(8, { ...plan, library: 'tidegate', url })
  run.onStop(() => workers.stop())
  // The first and last seconds are partial, and the first one spends the full bucket.
  const durationMs = (BUDGET_SECONDS + 4) * 1_000
  const results = await workers.run({ durationMs, inFlight: 4, bySecond: true })
  await workers.stop()
  const seconds = admittedBySecond(results).slice(3, 3 + BUDGET_SECONDS)
  const mean = seconds.reduce((sum, admitted) => sum + admitted, 0) / seconds.length
  // A request admitted at the end of a second may count for the next one.
  const isMet = mean >= 990 && mean <= 1_001
  run.table({
    name: 'hot-keys-budget',
    title: `Eight processes with a budget of 1,000 per second, over ${seconds.length} s`,
    columns: [
      { name: 'mean', digits: 1 },
      { name: 'least in a second' },
      { name: 'most in a second' },
      { name: 'aim: 990 to 1,001' },
    ],
    rows: [
      {
        name: 'admitted per second',
        isOurs: true,
        cells: [mean, Math.min(...seconds), Math.max(...seconds), verdictOf(isMet)],
      },
    ],
  })
}

export async function measureManyKeys(run: Run, server: RedisServer): Promise<void> {
  const keys = run.isQuick ? 20_000 : 1_000_000
  run.progress(`the memory of ${keys.toLocaleString('en-US')} keys`)
  await server.command('FLUSHALL')
  const memory = await memoryOfKeys(server.url, keys)
  const isMet = memory.residentBytes <= 50 * MEGABYTE && memory.hottest === 'hot'
  run.table({
    name: 'hot-keys-memory',
    title: `Memory of one process after ${keys.toLocaleString('en-US')} distinct keys in Redis`,
    columns: [
      { name: 'MB in use after collection', digits: 1 },
      { name: 'MB of the process', digits: 1 },
      { name: 'aim: at most 50 MB, and the hottest key found' },
    ],
    rows: [
      {
        name: 'more than with as many calls for few keys',
        isOurs: true,
        cells: [memory.heapBytes / MEGABYTE, memory.residentBytes / MEGABYTE, verdictOf(isMet)],
      },
    ],
  })
}

/** Requests that four processes admit beyond a limit that each counts in its own memory. */
export async function measureSynced(run: Run, { url }: RedisServer): Promise<void> {
  const plan = { algorithm: 'fixedWindow', limit: 1_000, perMs: 1_000 } as const
  const windows = 6
  const durationMs = windows * 1_000 - 200
  const rows = []
  for (const inFlight of [2, 12]) {
    run.progress(`accuracy 'synced', ${inFlight} in flight`)
    const workers = await startHotWorkers(4, {
      ...plan,
      library: 'tidegate',
      accuracy: 'synced',
      url,
    })
    run.onStop(() => workers.stop())
    await workers.run({ durationMs: 2_000, inFlight, pauseMs: 4 })
    // Begins at the start of a window, and ends before the last but one.
    await sleep(1_000 - (Date.now() % 1_000))
    const { made, admitted } = sumOf(await workers.run({ durationMs, inFlight, pauseMs: 4 }))
    await workers.stop()
    const asked = Math.round((made * 1_000) / durationMs).toLocaleString('en-US')
    const beyond = (admitted / (windows * plan.limit) - 1) * 100
    rows.push({ name: `${asked} asked for per second`, isOurs: true, cells: [beyond] })
  }
  run.table({
    name: 'hot-keys-synced',
    title: "Accuracy 'synced': four processes that count by themselves, 1,000 per second",
    columns: [{ name: '% admitted beyond the limit', digits: 1 }],
    rows,
  })
}
