import { expect, test } from 'vitest'
import { createLimiter, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { startLoad } from '../support/faults/load.ts'
import { figuresOf } from '../support/faults/load-report.ts'
import { pause, whilePaused } from '../support/faults/pause.ts'
import { patientClientKinds } from '../support/servers/clients.ts'
import { startRedis } from '../support/servers/redis.ts'
import { sizes } from '../support/suite.ts'
import { useServer } from '../support/use-server.ts'
import {
  checksFrom,
  clients,
  clientsOf,
  expectOnTime,
  expectQuickOnceOpen,
  isAllowed,
  isLong,
  last,
  lasting,
  normalAfterMs,
  phaseOf,
  untilNormal,
} from './scenario.ts'
import { tellFault } from './table.ts'

const wide = tokenBucket({ limit: 1_000_000, per: '1s' })

/** The queue bound, and the number of concurrent calls. */
const QUEUE_MAX = 20_000

/** Calls in flight that do not wait: four commands of 128. */
const SENT_MAX = 512
const FLOOD = 25_000

const redis = useServer(() => startRedis())
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
    expect(normalMs).toBeLessThan(sizes.normalAgainMsMax)
    const [warm, stopped] = [phaseOf(report, 'warm'), phaseOf(report, 'stopped')]
    // A short run finds gross errors only: garbage of a stalled process is collected later.
    expect(stopped.rssBytesMax / warm.rssBytesMax).toBeLessThan(isLong ? 1.1 : 1.5)
    // The calls of 1.5 s: the machine may stall, but not all decisions may wait for Redis.
    expect(stopped.pendingMax).toBeLessThan(1_500)
  },
)

test('a flood while Redis hangs is shed at once beyond the calls that may wait', async () => {
  const kind = patientClientKinds.find(({ name }) => name === clients[0])
  const connected = await kind?.single(redis)
  if (connected === undefined) throw new Error('there is no such client')
  const store = redisStore(connected.client)
  const limiter = createLimiter({ limit: wide, store, queueMax: QUEUE_MAX })
  await limiter.check('key')
  const decisions = await whilePaused(redis, () =>
    Promise.all(Array.from({ length: FLOOD }, () => limiter.check('key'))),
  )
  const reasons = decisions.map(({ degraded }) => degraded?.reason)
  const shed = reasons.filter((reason) => reason === 'overloaded').length
  expect(shed).toBeLessThanOrEqual(FLOOD - QUEUE_MAX)
  expect(shed).toBeGreaterThanOrEqual(FLOOD - QUEUE_MAX - SENT_MAX)
  expect(reasons.filter((reason) => reason === 'timeout')).toHaveLength(FLOOD - shed)
  expect(decisions.filter(({ allowed }) => !allowed)).toHaveLength(shed)
  connected.close()
})
