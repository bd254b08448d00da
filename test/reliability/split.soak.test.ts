/**
 * A master that is cut off from its replicas while the limiter still reaches it. It keeps
 * answering, and loses its counts when it comes back, because a replica has taken over.
 */

import { beforeEach, describe, expect, test } from 'vitest'
import { fixedWindow } from '../../packages/tidegate/src/index.ts'
import { type LoadPlan, startLoad } from '../support/faults/load.ts'
import type { Check } from '../support/faults/load-records.ts'
import type { LoadReport } from '../support/faults/load-report.ts'
import { networkProblem, startNetwork } from '../support/faults/network.ts'
import { type RedisCluster, startCluster } from '../support/servers/cluster.ts'
import type { Place } from '../support/servers/place.ts'
import type { RedisServer } from '../support/servers/redis.ts'
import { startSentinel } from '../support/servers/sentinel.ts'
import { until } from '../support/servers/until.ts'
import { keysOnMaster, LIMIT_NAME, usedByKey } from './counters.ts'
import {
  checksFrom,
  clients,
  expectOnTime,
  isAllowed,
  isLong,
  isOfStore,
  last,
  lasting,
  phaseOf,
  untilNormal,
} from './scenario.ts'
import { tell } from './table.ts'

/** More keys than checks of a process in two minutes, so that each has a key of its own. */
const KEYS = 60_000

/** The time after which Sentinels consider a server down. */
const DOWN_AFTER_MS = lasting(2000, 1000)

/** The time after which a cluster node considers another one down. */
const NODE_TIMEOUT_MS = 2000

const limit = fixedWindow({ limit: 1_000_000, per: '30d', accuracy: 'exact' })

const eachItsKey = { limits: { [LIMIT_NAME]: limit }, keys: KEYS, hasOwnKeys: true }

interface Setting {
  readonly client: string
  readonly setting: string
  readonly args?: readonly string[]
  readonly plan?: Pick<LoadPlan, 'hasDefaultOptions' | 'hasFailoverDetector' | 'storeOptions'>
}

const minReplicas = ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '2']
const replicated = { storeOptions: { durability: 'replicated' } } as const

/** The settings that reduce the loss, each alone. */
const settingsOf = (client: string): readonly Setting[] => [
  { client, setting: 'default options of the client', plan: { hasDefaultOptions: true } },
  { client, setting: 'recommended options' },
  { client, setting: '`min-replicas-to-write 1`', args: minReplicas },
  { client, setting: "`durability: 'replicated'`", plan: replicated },
]

const detecting: readonly Setting[] = [
  { client: 'ioredis 6', setting: '`failoverDetector`', plan: { hasFailoverDetector: true } },
  {
    client: 'ioredis 6',
    setting: '`failoverDetector` and `min-replicas-to-write 1`',
    args: minReplicas,
    plan: { hasFailoverDetector: true },
  },
  {
    client: 'ioredis 6',
    setting: "`failoverDetector` and `durability: 'replicated'`",
    plan: { hasFailoverDetector: true, ...replicated },
  },
]

const all = clients.flatMap(settingsOf)
const [, , refusing, confirmed] = settingsOf('ioredis 6') as [Setting, Setting, Setting, Setting]
const withSentinel = isLong ? [...all, ...detecting] : [refusing]
const onCluster = isLong ? all : [confirmed]

const problem = networkProblem()

// Run concurrently in the test suite, because most of the time is spent waiting for the servers.
describe('a master that is cut off from its replicas', { concurrent: !isLong }, () => {
  beforeEach(({ skip }) => skip(problem !== undefined, problem))

  test.for(withSentinel)(
    'costs no decision its time with Sentinel, $client, $setting',
    async ({ client, setting, args = [], plan = {} }, { onTestFinished }) => {
      const network = startNetwork(['a', 'b', 'c'])
      onTestFinished(() => network.stop())
      const { a, b, c } = network.places
      const group = await startSentinel({
        places: [a, b, b],
        sentinelPlaces: [b],
        downAfterMs: DOWN_AFTER_MS,
        args,
      })
      onTestFinished(() => group.stop())
      const { addresses: sentinels, name } = group
      const target = { client, redis: { sentinels, name }, places: [c] }
      const load = await startLoad({ ...plan, ...target, ...eachItsKey })
      await last(lasting(1000, 3000))
      load.mark('cut')
      network.cut('a', 'b')
      await until('there is another master', async () => (await group.master()).host !== a.host)
      load.mark('promoted')
      const isLeft = args === minReplicas || plan.hasFailoverDetector === true
      if (isLeft) {
        // The loss ends with that, and not only when the partition heals.
        await until('the load uses the next master', async () => {
          return (await connectionsFrom(c, await group.master())) >= load.processes.length
        })
        load.mark('left')
        await untilNormal(load)
      }
      await last(lasting(2000, 6000))
      load.mark('healed')
      network.heal('a', 'b')
      await last(lasting(500, 10_000))
      const report = await load.stop()
      const loss = await lossOf(report, await group.master())

      tellLoss('Sentinel', { client, setting }, loss)
      expectOnTime(report)
      if (plan.storeOptions !== undefined) expect(loss.lost).toEqual([])
      if (!isLeft) return
      const leftMs = phaseOf(report, 'left').startedMs
      expect(loss.lastMs).toBeLessThan(leftMs)
      expect(loss.acknowledged.some(({ startedMs }) => startedMs > leftMs)).toBe(true)
    },
  )

  test.for(onCluster)(
    'stops to answer by itself on Cluster, $client, $setting',
    async ({ client, setting, args = [], plan = {} }, { onTestFinished }) => {
      const network = startNetwork(['a', 'b', 'c'])
      onTestFinished(() => network.stop())
      const { a, b, c } = network.places
      const coverage = ['--cluster-require-full-coverage', 'no']
      const cluster = await startCluster({
        places: [a, b, b, b, b, b],
        nodeTimeoutMs: NODE_TIMEOUT_MS,
        args: [...coverage, ...args],
      })
      onTestFinished(() => cluster.stop())
      const [master] = cluster.masters
      if (master === undefined) throw new Error('a cluster has masters')
      const affected = await keysOnMaster(cluster, master, limit, 2 * KEYS)
      const target = { client, redis: { cluster: cluster.addresses }, places: [c] }
      const load = await startLoad({ ...plan, ...target, ...eachItsKey })
      await last(lasting(1000, 3000))
      load.mark('cut')
      network.cut('a', 'b')
      await until('the minority refuses requests', async () =>
        String(await master.command('CLUSTER', 'INFO')).includes('cluster_state:fail'),
      )
      load.mark('refusing')
      await last(lasting(2500, 5000))
      load.mark('healed')
      network.heal('a', 'b')
      await cluster.untilOk()
      await last(lasting(500, 5000))
      const report = await load.stop()
      const loss = await lossOf(report, cluster, ({ key }) => affected.has(key))

      tellLoss('Cluster', { client, setting }, loss)
      expectOnTime(report)
      if (plan.storeOptions !== undefined) expect(loss.lost).toEqual([])
      expect(loss.lastMs).toBeLessThan(phaseOf(report, 'refusing').startedMs)
    },
  )
})

/** The clients of a server that connect from this place. */
async function connectionsFrom({ host }: Place, server: RedisServer): Promise<number> {
  const clients = String(await server.command('CLIENT', 'LIST'))
  return clients.split(` addr=${host}:`).length - 1
}

interface Loss {
  readonly acknowledged: readonly Check[]
  readonly lost: readonly Check[]
  readonly firstMs: number
  readonly lastMs: number
}

/** The decisions of the store since the partition, and the lost ones among them. */
async function lossOf(
  report: LoadReport,
  redis: RedisServer | RedisCluster,
  isMeant: (check: Check) => boolean = () => true,
): Promise<Loss> {
  const isAnswered = (check: Check) => isAllowed(check) && isOfStore(check) && isMeant(check)
  const acknowledged = checksFrom(report, 'cut').filter(isAnswered)
  const keys = acknowledged.map(({ key }) => key)
  const used = await usedByKey(redis, limit, keys)
  const lost = acknowledged.filter(({ key }) => used.get(key) === 0)
  const times = lost.map(({ startedMs }) => startedMs)
  return { acknowledged, lost, firstMs: Math.min(...times), lastMs: Math.max(...times) }
}

function tellLoss(
  servers: string,
  { client, setting }: Setting,
  { acknowledged, lost, firstMs, lastMs }: Loss,
): void {
  const counts = { acknowledged: acknowledged.length, lost: lost.length }
  const windowMs = lost.length === 0 ? 0 : lastMs - firstMs
  tell({ table: 'losses', servers, client, setting, ...counts, windowMs })
}
