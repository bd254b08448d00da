import { beforeEach, expect, test } from 'vitest'
import { type FailureMode, failureModes, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { startLoad } from '../support/faults/load.ts'
import type { Check } from '../support/faults/load-records.ts'
import { figuresOf } from '../support/faults/load-report.ts'
import { crash } from '../support/faults/pause.ts'
import { startRedis } from '../support/servers/redis.ts'
import { sizes } from '../support/suite.ts'
import { useServer } from '../support/use-server.ts'
import {
  checksFrom,
  checksWithin,
  clientsOf,
  durationMs,
  expectOnTime,
  expectQuickOnceOpen,
  isAllowed,
  isOfStore,
  last,
  lasting,
  normalAfterMs,
  openAfterMs,
  untilNormal,
  untilShared,
} from './scenario.ts'
import { tellFault } from './table.ts'

/** The limit that is enforced by shares: half of the units that its checks request. */
const PER_SECOND = 165

const limits = {
  open: tokenBucket({ limit: 1_000_000, per: '1s', onStoreError: 'open', accuracy: 'exact' }),
  closed: tokenBucket({ limit: 1_000_000, per: '1s', onStoreError: 'closed', accuracy: 'exact' }),
  local: tokenBucket({ limit: PER_SECOND, per: '1s', onStoreError: 'local', accuracy: 'exact' }),
}

const redis = useServer(() => startRedis())
beforeEach(async () => void (await redis.command('FLUSHALL')))
test.each(clientsOf('ioredis 6'))(
  '%s: decisions are as declared while Redis is killed',
  async (client) => {
    const load = await startLoad({
      client,
      redis,
      limits,
      isApart: true,
      keys: failureModes.length,
      guard: { breaker: { openMs: 500 } },
    })
    await last(1000)
    await untilShared(load)
    load.mark('killed')
    await crash(redis)
    load.mark('down')
    await last(lasting(2500, 10_000))
    load.mark('starting')
    await redis.restart()
    load.mark('back')
    await untilNormal(load)
    const report = await load.stop()

    const ofMode = (mode: FailureMode, checks: readonly Check[]) =>
      checks.filter(({ key }) => key === failureModes.indexOf(mode))
    const outage = checksFrom(report, 'killed', 'back')
    const normalMs = normalAfterMs(report, 'back')
    for (const mode of failureModes) {
      const fault = `Redis killed for 10 s, \`${mode}\`` as const
      tellFault({ fault, client, normalAfterMs: normalMs }, figuresOf(ofMode(mode, outage)))
    }
    expectOnTime(report)
    expectQuickOnceOpen(report)
    const down = checksWithin(report, 'down', 'starting')
    expect(down.filter(isOfStore)).toEqual([])
    expect(ofMode('open', down).every(isAllowed)).toBe(true)
    expect(ofMode('closed', down).some(isAllowed)).toBe(false)
    const shares = ofMode('local', down).filter(isAllowed).length
    const whole = (PER_SECOND * durationMs(report, 'down', 'starting')) / 1000
    // A process that stalled before has a full share left. Two limits would be twice the whole.
    expect(shares).toBeLessThan(whole * 1.05 + PER_SECOND)
    // A process that stalls for longer than a share takes to refill loses units.
    expect(shares).toBeGreaterThan(whole * 0.25)
    expect(openAfterMs(report, 'killed')).toBeLessThan(sizes.breakerOpenMsMax)
    expect(normalMs).toBeLessThan(sizes.normalAgainMsMax)
  },
)
