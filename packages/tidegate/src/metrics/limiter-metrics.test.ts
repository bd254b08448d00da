import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { patient } from '../../../../test/support/patience.ts'
import { startRedis } from '../../../../test/support/servers/redis.ts'
import { until } from '../../../../test/support/servers/until.ts'
import { createLimiter } from '../limiter/create-limiter.ts'
import { concurrency, fixedWindow, tokenBucket } from '../limits/limits.ts'
import { redisStore } from '../stores/redis/redis-store.ts'
import { SAMPLE_EVERY } from './decision-counts.ts'
import type { MetricFamily, MetricSample } from './family.ts'
import { type LimiterMetrics, limiterMetrics } from './limiter-metrics.ts'

function familyOf(metrics: LimiterMetrics, name: string): MetricFamily {
  const found = metrics.snapshot().find((family) => family.name === `tidegate_${name}`)
  if (found === undefined) throw new Error(`there is no ${name}`)
  return found
}

/** The values of all series that are not 0, by their labels. */
function valuesOf(metrics: LimiterMetrics, name: string): Record<string, number> {
  const shown = ({ labels, value }: MetricSample) => [Object.values(labels).join(' '), value]
  const entries = familyOf(metrics, name).samples.map(shown)
  return Object.fromEntries(entries.filter(([, value]) => value !== 0))
}

function sum(metrics: LimiterMetrics, name: string): number {
  return familyOf(metrics, name).samples.reduce((total, { value }) => total + value, 0)
}

describe('in memory', () => {
  test('counts decisions by limit and outcome', async () => {
    const metrics = limiterMetrics()
    const { meter } = metrics
    const limit = fixedWindow({ limit: 2, per: '1h' })
    const limiter = createLimiter({ name: 'api', limit, meter })
    for (let call = 0; call < 5; call++) await limiter.check('ada')
    limiter.checkSync('bob')
    await limiter.peek('ada')
    expect(valuesOf(metrics, 'limiter_decisions_total')).toEqual({
      'api allowed store': 3,
      'api denied store': 3,
    })
  })

  test('counts each limit of a group', async () => {
    const metrics = limiterMetrics()
    const { meter } = metrics
    const limits = {
      org: fixedWindow({ limit: 9, per: '1h' }),
      key: fixedWindow({ limit: 1, per: '1h' }),
    }
    const limiter = createLimiter({ limits, meter })
    for (let call = 0; call < 2; call++) await limiter.check({ org: 'o', key: 'k' })
    expect(valuesOf(metrics, 'limiter_decisions_total')).toEqual({
      'org allowed store': 2,
      'key allowed store': 1,
      'key denied store': 1,
    })
  })

  test('observes times and used shares of one in 16 decisions, for all 16', () => {
    const metrics = limiterMetrics()
    const limit = tokenBucket({ limit: 100, per: '1h' })
    const limiter = createLimiter({ name: 'api', limit, meter: metrics.meter })
    for (let call = 0; call < 4 * SAMPLE_EVERY; call++) limiter.checkSync('ada')
    expect(valuesOf(metrics, 'limiter_decision_duration_seconds')).toEqual({ store: 64 })
    const [used] = familyOf(metrics, 'limiter_used_ratio').samples
    // After 16, 32, 48 and 64 units of 100.
    expect(used).toMatchObject({ value: 64, buckets: [0, 16, 48, 64, 64, 64, 64] })
    expect(used?.sum).toBeCloseTo(16 * (0.16 + 0.32 + 0.48 + 0.64))
  })

  test('names of limits beyond the maximum are counted together', async () => {
    const metrics = limiterMetrics()
    const limit = fixedWindow({ limit: 1, per: '1h' })
    for (let at = 0; at < 300; at++) {
      const limiter = createLimiter({ name: `limit-${at}`, limit, meter: metrics.meter })
      limiter.checkSync('ada')
    }
    const { samples } = familyOf(metrics, 'limiter_decisions_total')
    expect(new Set(samples.map(({ labels }) => labels.limit)).size).toBe(101)
    expect(sum(metrics, 'limiter_decisions_total')).toBe(300)
    expect(valuesOf(metrics, 'limiter_decisions_total')['other allowed store']).toBe(200)
  })

  test('slots are counted as well', async () => {
    const metrics = limiterMetrics()
    const limit = concurrency({ limit: 1, ttl: '1m' })
    const limiter = createLimiter({ name: 'slots', limit, meter: metrics.meter })
    const first = await limiter.acquire('ada')
    await limiter.acquire('ada')
    await first.release()
    expect(valuesOf(metrics, 'limiter_decisions_total')).toEqual({
      'slots allowed store': 1,
      'slots denied store': 1,
    })
  })
})

describe('on Redis', () => {
  async function setup(options: { limit?: number; onStoreError?: 'open' | 'closed' } = {}) {
    const server = await startRedis()
    onTestFinished(() => server.stop())
    const client = new Redis(server.port, server.host, {
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
    })
    client.on('error', () => undefined)
    onTestFinished(() => client.disconnect())
    await until('the client is connected', async () => client.status === 'ready')
    const { limit = 1_000, onStoreError = 'open' } = options
    const metrics = limiterMetrics()
    const limiter = createLimiter({
      name: 'api',
      limit: tokenBucket({ limit, per: '1h' }),
      store: redisStore(client),
      ...patient,
      // Longer than any stall between two checks.
      breaker: { openFirstMs: 600_000, openMs: 600_000 },
      onStoreError,
      meter: metrics.meter,
    })
    onTestFinished(() => limiter.close())
    await limiter.ready()
    return { server, metrics, limiter }
  }

  test('counts commands, their times and the charges in each', async () => {
    const { metrics, limiter } = await setup()
    const keys = Array.from({ length: 500 }, (_, at) => `key-${at}`)
    await Promise.all(keys.map((key) => limiter.check(key)))
    const commands = valuesOf(metrics, 'store_commands_total')['main ok'] ?? 0
    expect(commands).toBeGreaterThan(0)
    expect(commands).toBeLessThan(500)
    expect(sum(metrics, 'store_command_duration_seconds')).toBe(commands)
    const [batches] = familyOf(metrics, 'store_batch_charges').samples
    expect(batches?.sum).toBe(500)
    expect(valuesOf(metrics, 'limiter_decisions_total')).toEqual({ 'api allowed store': 500 })
    expect(valuesOf(metrics, 'breaker_state')).toEqual({ 'main closed': 1 })
    expect(familyOf(metrics, 'store_round_trip_seconds').samples[0]?.value).toBeGreaterThan(0)
    expect(familyOf(metrics, 'store_deadline_seconds').samples[0]?.value).toBe(30)
  })

  test('counts denials that are repeated without the store', async () => {
    const { metrics, limiter } = await setup({ limit: 1 })
    for (let call = 0; call < 10; call++) await limiter.check('ada')
    expect(valuesOf(metrics, 'limiter_decisions_total')).toEqual({
      'api allowed store': 1,
      'api denied store': 1,
      'api denied cache': 8,
    })
    expect(valuesOf(metrics, 'cached_denials')).toEqual({ '': 1 })
  })

  test('counts an outage: degraded decisions, failed commands and the breaker', async () => {
    const { server, metrics, limiter } = await setup({ onStoreError: 'closed' })
    await limiter.check('ada')
    await server.stop()
    await until('the breaker opens', async () => {
      await limiter.check('ada')
      return valuesOf(metrics, 'breaker_state')['main open'] === 1
    })
    await limiter.check('ada')
    const degraded = valuesOf(metrics, 'degraded_decisions_total')
    expect(Object.keys(degraded).every((labels) => labels.endsWith(' closed'))).toBe(true)
    expect(degraded['breaker-open closed']).toBeGreaterThan(0)
    const unavailable = valuesOf(metrics, 'limiter_decisions_total')['api unavailable fallback']
    expect(unavailable).toBe(sum(metrics, 'degraded_decisions_total'))
    expect(valuesOf(metrics, 'breaker_transitions_total')['main open']).toBe(1)
    const failed = valuesOf(metrics, 'store_commands_total')
    expect((failed['main unreachable'] ?? 0) + (failed['main failed'] ?? 0)).toBeGreaterThan(0)
  })
})

test('a meter that is not one is refused', () => {
  const limit = fixedWindow({ limit: 1, per: '1h' })
  expect(() => createLimiter({ limit, meter: { observer: () => undefined } as never })).toThrow(
    'createLimiter.meter',
  )
})
