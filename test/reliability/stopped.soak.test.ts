import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLimiter, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { startLoad } from '../faults/load.ts'
import { figuresOf } from '../faults/load-report.ts'
import { pause, whilePaused } from '../faults/pause.ts'
import { recommendedClientKinds } from '../servers/clients.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import {
  checksFrom,
  clients,
  clientsOf,
  expectOnTime,
  expectQuickOnceOpen,
  isAllowed,
  last,
  lasting,
  normalAfterMs,
  phaseOf,
  untilNormal,
} from './scenario.ts'
import { tellFault } from './table.ts'

const wide = tokenBucket({ limit: 1_000_000, per: '1s' })

/** Calls that may wait here, and calls that come at once. */
const QUEUE_MAX = 20_000
const FLOOD = 25_000

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

test.each(clientsOf('node-redis 6'))(
  '%s: decisions go on while Redis hangs, in the same memory',
  async (client) => {
    const guard = { breaker: { openMs: 500 } }
    const load = await startLoad({ client, redis, limits: { wide }, keys: 1000, guard })
    await last(lasting(2500, 10_000))
    load.mark('warm')
    await last(lasting(1000, 10_000))
    load.mark('stopped')
    const resume = await pause(redis)
    await last(lasting(2500, 30_000))
    load.mark('back')
    await resume()
    await untilNormal(load)
    const report = await load.stop()

    const normalMs = normalAfterMs(report, 'back')
    const outage = checksFrom(report, 'stopped', 'back')
    tellFault(
      { fault: 'Redis stopped for 30 s', client, normalAfterMs: normalMs },
      figuresOf(outage),
    )
    expectOnTime(report)
    expectQuickOnceOpen(report)
    expect(outage.every(isAllowed)).toBe(true)
    expect(normalMs).toBeLessThan(3000)
    const [warm, stopped] = [phaseOf(report, 'warm'), phaseOf(report, 'stopped')]
    expect(stopped.rssBytesMax / warm.rssBytesMax).toBeLessThan(1.1)
    // What comes in half a second: decisions that wait for a deadline are far fewer.
    expect(stopped.pendingMax).toBeLessThan(500)
  },
)

test('a flood while Redis hangs is shed at once beyond the calls that may wait', async () => {
  const kind = recommendedClientKinds.find(({ name }) => name === clients[0])
  const connected = await kind?.single(redis)
  if (connected === undefined) throw new Error('there is no such client')
  const store = redisStore(connected.client)
  const limiter = createLimiter({ limit: wide, store, queueMax: QUEUE_MAX })
  await limiter.check('key')
  const decisions = await whilePaused(redis, () =>
    Promise.all(Array.from({ length: FLOOD }, () => limiter.check('key'))),
  )
  const reasons = decisions.map(({ degraded }) => degraded?.reason)
  expect(reasons.filter((reason) => reason === 'overloaded')).toHaveLength(FLOOD - QUEUE_MAX)
  expect(reasons.filter((reason) => reason === 'timeout')).toHaveLength(QUEUE_MAX)
  expect(decisions.filter(({ allowed }) => !allowed)).toHaveLength(FLOOD - QUEUE_MAX)
  connected.close()
})
