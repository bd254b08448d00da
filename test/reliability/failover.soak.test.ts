import { describe, expect, test } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { type Load, startLoad } from '../faults/load.ts'
import type { Check } from '../faults/load-records.ts'
import { figuresOf, type LoadReport } from '../faults/load-report.ts'
import { crash } from '../faults/pause.ts'
import { startCluster } from '../servers/cluster.ts'
import type { RedisServer } from '../servers/redis.ts'
import { startSentinel } from '../servers/sentinel.ts'
import { keysOnMaster, LIMIT_NAME } from './counters.ts'
import {
  checksFrom,
  clientsOf,
  durationMs,
  expectOnTime,
  isAllowed,
  isLong,
  last,
  lasting,
  normalAfterMs,
  untilNormal,
} from './scenario.ts'
import { tellFault } from './table.ts'

const KEYS = 30

/** Of each key: half of what its checks ask for. */
const PER_SECOND = 16

const limit = tokenBucket({
  limit: PER_SECOND,
  per: '1s',
  onStoreError: 'local',
  accuracy: 'exact',
})

/** Longer in the test suite, where a busy machine must not look like a fault of the servers. */
const guard = { deadlineMs: lasting(200, 15) }

const plan = { limits: { [LIMIT_NAME]: limit }, keys: KEYS, guard }

// In the test suite at the same time: most of it is waiting for the servers to agree.
describe('while a master is killed and a replica takes over', { concurrent: !isLong }, () => {
  test.for(clientsOf('ioredis 6'))(
    '%s with Sentinel keeps the limits by shares',
    async (client, { onTestFinished }) => {
      const group = await startSentinel()
      onTestFinished(() => group.stop())
      const { addresses: sentinels, name } = group
      const load = await startLoad({ ...plan, client, redis: { sentinels, name } })
      const report = await killed(load, await group.master())

      const checks = checksFrom(report, 'killed', 'over')
      const normalMs = normalAfterMs(report, 'down')
      const fault = 'master killed, Sentinel'
      tellFault({ fault, client, normalAfterMs: normalMs }, figuresOf(checks))
      expectOnTime(report)
      expectShares(report, checks, KEYS)
    },
  )

  test.for(clientsOf('node-redis 6'))(
    '%s on Cluster loses one shard only',
    async (client, { onTestFinished }) => {
      const cluster = await startCluster({ args: ['--cluster-require-full-coverage', 'no'] })
      onTestFinished(() => cluster.stop())
      const [master] = cluster.masters
      if (master === undefined) throw new Error('a cluster has masters')
      const affected = await keysOnMaster(cluster, master, limit, KEYS)
      const isAffected = ({ key }: Check) => affected.has(key)
      const load = await startLoad({ ...plan, client, redis: { cluster: cluster.addresses } })
      const report = await killed(load, master)

      const checks = checksFrom(report, 'killed', 'over')
      const own = checks.filter(isAffected)
      const others = checks.filter((check) => !isAffected(check))
      const normalMs = normalAfterMs(report, 'down', isAffected)
      const fault = 'master killed, Cluster: its shard'
      tellFault({ fault, client, normalAfterMs: normalMs }, figuresOf(own))
      const elsewhere = 'master killed, Cluster: the others'
      tellFault({ fault: elsewhere, client, normalAfterMs: undefined }, figuresOf(others))
      expectOnTime(report)
      expectShares(report, own, affected.size)
      // A late answer of a busy machine is all that can happen to the others.
      const failed = others.filter(({ note }) => /unreachable|breaker-open|store-error/.test(note))
      expect(failed).toEqual([])
    },
  )
})

async function killed(load: Load, master: RedisServer): Promise<LoadReport> {
  // Until each process has heard of the other, and knows its share by that.
  await last(2500)
  load.mark('killed')
  await crash(master)
  load.mark('down')
  await untilNormal(load)
  load.mark('over')
  return load.stop()
}

/** What was admitted without the store is within the shares of the processes. */
function expectShares(report: LoadReport, checks: readonly Check[], keys: number): void {
  const local = checks.filter(({ note }) => note !== '')
  const seconds = durationMs(report, 'killed', 'over') / 1000
  expect(local.length).toBeGreaterThan(0)
  expect(local.filter(isAllowed).length).toBeLessThan(keys * PER_SECOND * (seconds + 0.2))
}
