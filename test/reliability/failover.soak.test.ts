import { describe, expect, test } from 'vitest'
import { tokenBucket } from '../../packages/tidegate/src/index.ts'
import { type Load, startLoad } from '../support/faults/load.ts'
import type { Check } from '../support/faults/load-records.ts'
import { figuresOf, type LoadReport } from '../support/faults/load-report.ts'
import { crash } from '../support/faults/pause.ts'
import { startCluster } from '../support/servers/cluster.ts'
import type { RedisServer } from '../support/servers/redis.ts'
import { startSentinel } from '../support/servers/sentinel.ts'
import { sizes } from '../support/suite.ts'
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
  untilShared,
} from './scenario.ts'
import { tellFault } from './table.ts'

const KEYS = 30

/** The times after which Sentinels and cluster nodes consider a server down. */
const DOWN_AFTER_MS = lasting(2000, 1000)
const NODE_TIMEOUT_MS = 2000

/** The limit of each key: half of the units that its checks request. */
const PER_SECOND = 16

const limit = tokenBucket({
  limit: PER_SECOND,
  per: '1s',
  onStoreError: 'local',
  accuracy: 'exact',
})

/** Longer in the test suite, so that a busy machine does not look like a fault of the servers. */
const guard = { deadlineMs: lasting(200, 15) }

const plan = { limits: { [LIMIT_NAME]: limit }, keys: KEYS, guard }

// Run concurrently in the test suite, because most of the time is spent waiting for the servers.
describe('while a master is killed and a replica takes over', { concurrent: !isLong }, () => {
  test.for(clientsOf('ioredis 6'))(
    '%s with Sentinel keeps the limits by shares',
    async (client, { onTestFinished }) => {
      const group = await startSentinel({ downAfterMs: DOWN_AFTER_MS })
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
      const cluster = await startCluster({
        args: ['--cluster-require-full-coverage', 'no'],
        nodeTimeoutMs: NODE_TIMEOUT_MS,
      })
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
      // Normally none, but a stall of the machine can disconnect clients of all shards.
      const failed = others.filter(({ note }) => /unreachable|breaker-open|store-error/.test(note))
      console.log(`${failed.length} of ${others.length} decisions of other shards failed`)
      expect(failed.length).toBeLessThan(others.length * sizes.lateShareMax)
    },
  )
})

async function killed(load: Load, master: RedisServer): Promise<LoadReport> {
  await last(1000)
  await untilShared(load)
  load.mark('killed')
  await crash(master)
  load.mark('down')
  await untilNormal(load)
  load.mark('over')
  return load.stop()
}

/** Expects that local decisions stay within the shares of the processes. */
function expectShares(report: LoadReport, checks: readonly Check[], keys: number): void {
  const local = checks.filter(({ note }) => note !== '')
  const seconds = durationMs(report, 'killed', 'over') / 1000
  expect(local.length).toBeGreaterThan(0)
  // A process that stalled before has a full share left. Two limits would be twice the whole.
  expect(local.filter(isAllowed).length).toBeLessThan(keys * PER_SECOND * (seconds + 1.2))
}
