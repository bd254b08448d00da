import { expect, test } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { startLoad } from '../support/faults/load.ts'
import { pause } from '../support/faults/pause.ts'
import { startRedis } from '../support/servers/redis.ts'
import { expectOnTime, last, phaseOf } from './scenario.ts'

test('a hot key takes one deadline when Redis stops, not two', async ({ onTestFinished }) => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const limits = { hot: tokenBucket({ limit: 1_000_000, per: '1s' }) }
  const load = await startLoad({ client: 'ioredis 6', redis, limits, keys: 1 })
  await last(2000)
  load.mark('stopped')
  await pause(redis)
  await last(2000)
  const report = await load.stop()
  expect(phaseOf(report, 'stopped').made).toBeGreaterThan(0)
  expectOnTime(report)
})
