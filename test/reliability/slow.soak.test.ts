import { expect, test } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { startFaultProxyProcess } from '../support/faults/fault-proxy.ts'
import { startLoad } from '../support/faults/load.ts'
import { figuresOf } from '../support/faults/load-report.ts'
import { startRedis } from '../support/servers/redis.ts'
import { sizes } from '../support/suite.ts'
import { useServer } from '../support/use-server.ts'
import {
  checksFrom,
  checksWithin,
  clientsOf,
  expectOnTime,
  isAllowed,
  isOfStore,
  last,
  lasting,
  normalAfterMs,
  untilNormal,
} from './scenario.ts'
import { tellFault } from './table.ts'

/**
 * Latencies in each direction. The second and the last but one are within the deadline, those in
 * between are not.
 */
const STEPS_MS = [0, 2, 25, 250, 25, 2, 0]

const wide = tokenBucket({ limit: 1_000_000, per: '1s' })

const redis = useServer(() => startRedis())
const proxy = useServer(() => startFaultProxyProcess(redis))

test.each(clientsOf('ioredis 6'))(
  '%s: decisions are on time while Redis becomes slow',
  async (client) => {
    const guard = { breaker: { openMs: 500 } }
    const load = await startLoad({ client, redis: proxy, limits: { wide }, keys: 100, guard })
    await last(1500)
    for (const [step, latencyMs] of STEPS_MS.entries()) {
      await proxy.set({ latencyMs, jitterMs: latencyMs / 10 })
      load.mark(`step ${step}`)
      await last(lasting(500, 5000))
      load.mark(`end of step ${step}`)
    }
    await untilNormal(load)
    const report = await load.stop()

    const normalMs = normalAfterMs(report, `step ${STEPS_MS.length - 2}`)
    const slow = checksFrom(report, 'step 1', `step ${STEPS_MS.length - 2}`)
    const fault = 'latency from 0 to 500 ms and back'
    tellFault({ fault, client, normalAfterMs: normalMs }, figuresOf(slow))
    expectOnTime(report)
    expect(slow.every(isAllowed)).toBe(true)
    expect(normalMs).toBeLessThan(sizes.normalAgainMsMax)
    const slowest = STEPS_MS.indexOf(Math.max(...STEPS_MS))
    const onlySlow = checksWithin(report, `step ${slowest}`, `end of step ${slowest}`)
    // Normally none. A store has more time after a stall of the process that calls it.
    const answered = onlySlow.filter(isOfStore).length
    console.log(`${answered} of ${onlySlow.length} decisions waited for the slow store`)
    expect(answered).toBeLessThanOrEqual(onlySlow.length * sizes.lateShareMax)
  },
)
