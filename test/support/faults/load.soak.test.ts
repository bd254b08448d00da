import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { fixedWindow, tokenBucket } from '../../../packages/tidegate/src/index.ts'
import { patient } from '../patience.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { until } from '../servers/until.ts'
import { type FaultProxy, startFaultProxyProcess } from './fault-proxy.ts'
import { type Load, startLoad } from './load.ts'
import { checksOf } from './load-records.ts'
import type { PhaseReport as Report } from './load-report.ts'
import { whilePaused } from './pause.ts'

const wide = { wide: tokenBucket({ limit: 1_000_000, per: '1s' }) }

let redis: RedisServer
let proxy: FaultProxy

beforeAll(async () => {
  redis = await startRedis()
  proxy = await startFaultProxyProcess(redis)
})
beforeEach(async () => {
  await proxy.clear()
  await redis.command('FLUSHALL')
})
afterAll(async () => {
  await proxy.stop()
  await redis.stop()
})

test.each(['ioredis 6', 'node-redis 6'])('a load with %s tells every decision', async (client) => {
  const limits = { narrow: fixedWindow({ limit: 7, per: '30d' }), ...wide }
  // Long enough for a busy machine, because degraded decisions would admit more.
  const plan = { keys: 10, guard: patient, isPatient: true }
  const load = await startLoad({ client, redis, limits, ...plan })
  await untilMade(load, 200)
  const { phases, processes, pending } = await load.stop()
  expect(phases).toMatchObject([{ name: 'start', allowed: 70, rejected: 0, degraded: {} }])
  expect(pending).toBe(0)
  const [{ made, denied } = { made: 0, denied: 0 }] = phases
  expect(made).toBe(70 + denied)
  const checks = processes.flatMap(({ records }) => [...checksOf(records)])
  const allowed = checks.filter(({ outcome }) => outcome === 'allowed').map(({ key }) => key)
  expect(new Set(allowed).size).toBe(10)
  expect(checks.every(({ tookMs }) => tookMs > 0)).toBe(true)
})

test('a load goes on while the store fails, is late or silent, and tells it by phase', async () => {
  const plan = { client: 'ioredis 6', limits: wide, keys: 10, settleMs: 100 }
  const load = await startLoad({ ...plan, redis: proxy })
  await untilMade(load, 100)
  load.mark('full')
  await redis.command('CONFIG', 'SET', 'maxmemory', 1)
  await untilMade(load, load.made + 250)
  await redis.command('CONFIG', 'SET', 'maxmemory', 0)
  load.mark('slow')
  await proxy.set({ latencyMs: 25 })
  await untilMade(load, load.made + 250)
  await proxy.set({ hang: true })
  load.mark('silent')
  await untilMade(load, load.made + 250)
  const { phases, pending } = await load.stop()
  const [start, full, slow, silent] = phases as [Report, Report, Report, Report]
  expect(start.allowed).toBeGreaterThan(0)
  // Errors or degraded decisions, depending on the limiter.
  expect(full.rejected + sum(full.degraded)).toBeGreaterThan(0)
  expect(sum(full.errors)).toBe(full.rejected)
  // A breaker may be open by then, so that no check waits for the slow store.
  expect(slow.made).toBeGreaterThanOrEqual(100)
  expect(silent.made).toBeGreaterThanOrEqual(100)
  expect(silent.pending + silent.rejected + sum(silent.degraded)).toBe(silent.made)
  expect(phases.reduce((total, phase) => total + phase.pending, 0)).toBe(pending)
  expect(silent.rssBytesMax).toBeGreaterThan(silent.heapBytesMax)
})

test('a late event loop is told from a late answer', async () => {
  const load = await startLoad({ client: 'ioredis 6', redis, limits: wide, keys: 1 })
  const [first, second] = load.processes
  const [, samples = []] = load.samples
  if (first === undefined || second === undefined) throw new Error('there are two processes')
  await untilMade(load, 100)
  load.mark('paused')
  const { length } = samples
  await whilePaused(first, () => until('the other goes on', () => samples.length >= length + 2))
  await untilMade(load, load.made + 250)
  const [, paused] = (await load.stop()).phases
  expect(paused?.loopDelayMaxMs).toBeGreaterThan(200)
  // Mostly none. On a busy machine, the burst after the pause can be late for another reason.
  expect(paused?.late).toBeLessThan(paused?.made ?? 0)
})

test('a load whose process was killed does not end well', async () => {
  const plan = { client: 'ioredis 6', limits: wide, keys: 1, processes: 1 }
  const load = await startLoad({ ...plan, redis })
  load.processes[0]?.kill('SIGKILL')
  await expect(load.stop()).rejects.toThrow('a process of the load ended with SIGKILL')
})

async function untilMade(load: Load, made: number): Promise<void> {
  await until(`${made} checks were made`, () => load.made >= made)
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, each) => total + each, 0)
}
