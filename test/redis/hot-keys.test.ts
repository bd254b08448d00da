import { beforeEach, describe, expect, it } from 'vitest'
import { startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { isSoak, sizes } from '../support/suite.ts'
import { useServer } from '../support/use-server.ts'
import type { HotPlan } from './hot-worker.ts'
import { startHotWorkers, sumOf } from './hot-workers.ts'

const server = useServer(() => startRedis())

beforeEach(async () => void (await server.command('FLUSHALL')))

const HOUR_MS = 3_600_000

/** Leases are renewed in time, also by processes of a slow machine that decide little meanwhile. */
const COMMANDS_PER_ROUND = 400

/** Calls of a round after which every key was called, also the coldest. */
const MADE_PER_KEY_MIN = 1_000

function plan(part: Partial<HotPlan>): HotPlan {
  const library = 'tidegate'
  return { url: server.url, library, algorithm: 'tokenBucket', limit: 1, perMs: 1_000, ...part }
}

async function scriptCalls(): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'))
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

it.each([
  ['tokenBucket', 365 * 24 * HOUR_MS],
  ['fixedWindow', 24 * HOUR_MS],
] as const)(
  'keys of any rate each have their limit and not one more: %s',
  async (algorithm, perMs) => {
    const [keys, limit] = [sizes.hotKeys, 5_000]
    const workers = await startHotWorkers(4, plan({ algorithm, limit, perMs }))
    let admitted = 0
    await until('all limits are reached', async () => {
      const round = { keys, isZipf: true, inFlight: 64, durationMs: 500 }
      const more = sumOf(await workers.run(round))
      admitted += more.admitted
      return more.made > keys * MADE_PER_KEY_MIN && more.admitted + more.degraded === 0
    })
    await workers.stop()
    console.log(`${algorithm}: ${admitted} of ${keys * limit} admitted`)
    expect(admitted).toBeLessThanOrEqual(keys * limit)
    // Normally all. A process that stalls for longer than its lease lasts loses the units of it.
    expect(admitted).toBeGreaterThan(keys * limit * 0.9)
  },
)

if (isSoak) {
  describe('one key in four processes', () => {
    it('under its limit takes at most one command of Redis for a hundred decisions', async () => {
      const workers = await startHotWorkers(4, plan({ limit: 1_000_000_000 }))
      await workers.run({ durationMs: 500 })
      const before = await scriptCalls()
      const { made, admitted, degraded } = sumOf(await workers.run({ durationMs: 1_500 }))
      const calls = (await scriptCalls()) - before
      await workers.stop()
      console.log(`under its limit: ${made} decisions, ${calls} commands`)
      expect({ admitted, degraded }).toEqual({ admitted: made, degraded: 0 })
      expect(calls).toBeLessThanOrEqual(Math.max(made / 100, COMMANDS_PER_ROUND))
    })

    it('that is exhausted takes at most one command for a thousand decisions', async () => {
      const limited = plan({ algorithm: 'fixedWindow', limit: 1_000, perMs: 24 * HOUR_MS })
      const workers = await startHotWorkers(4, limited)
      const first = sumOf(await workers.run({ durationMs: 500 }))
      const before = await scriptCalls()
      const second = sumOf(await workers.run({ durationMs: 1_500 }))
      const calls = (await scriptCalls()) - before
      await workers.stop()
      console.log(`exhausted: ${second.made} decisions, ${calls} commands`)
      expect(first.admitted + second.admitted).toBeLessThanOrEqual(1_000)
      // Normally all. A process that stalls for longer than its lease lasts loses its units.
      expect(first.admitted + second.admitted).toBeGreaterThan(900)
      expect(calls).toBeLessThanOrEqual(Math.max(second.made / 1_000, COMMANDS_PER_ROUND))
    })

    it('has no more than its limit also after a process was killed', async () => {
      const limited = plan({ algorithm: 'fixedWindow', limit: 300_000, perMs: 25 * HOUR_MS })
      const workers = await startHotWorkers(4, limited)
      const [victim] = workers.processes
      const killed = setTimeout(() => victim?.kill('SIGKILL'), 300)
      const first = sumOf(await workers.run({ durationMs: 600, callsMax: 60_000 }))
      clearTimeout(killed)
      victim?.kill('SIGKILL')
      let admitted = first.admitted
      await until('the limit is reached', async () => {
        const more = sumOf(await workers.run({ durationMs: 300 }))
        admitted += more.admitted
        return more.made > 0 && more.admitted === 0
      })
      await workers.stop()
      console.log(`after a kill: ${admitted} of 300000 admitted to those who live`)
      expect(admitted).toBeLessThanOrEqual(300_000)
      expect(admitted).toBeGreaterThan(200_000)
    })
  })

  it('eight processes have nearly all of 1,000 per second, and never more', async () => {
    const workers = await startHotWorkers(8, plan({ limit: 1_000 }))
    const startMs = performance.now()
    const { admitted, degraded } = sumOf(await workers.run({ durationMs: 5_000, inFlight: 4 }))
    const seconds = (performance.now() - startMs) / 1_000
    await workers.stop()
    console.log(`eight processes: ${admitted} in ${seconds.toFixed(2)} s`)
    expect(degraded).toBe(0)
    expect(admitted).toBeLessThanOrEqual(1_000 * (1 + seconds))
    // Nearly 6,000 in 5 s. While all processes stall, units beyond the bucket are lost.
    expect(admitted).toBeGreaterThanOrEqual(1_000 * 5 * 0.5)
  })
}
