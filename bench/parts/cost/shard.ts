/**
 * One of the shards of a large Cluster, as the gateways use it: there are many of them, and each
 * has a few calls for this shard at a time. Calls arrive at a given rate, so that the cost is that
 * of a shard at a known utilisation. `tidegate plan` computes with it.
 *
 * The shard has a core of its own. Its clients share this process, which is as busy as a gateway:
 * charges of one turn of its event loop leave together.
 */

import { Cluster, Redis } from 'ioredis'
import { startCluster } from '../../../test/support/servers/cluster.ts'
import { moveToCore, setCoreAside } from '../../harness/cores.ts'
import type { Run, Table } from '../../harness/part.ts'
import { median, takeTurns } from '../../harness/rounds.ts'
import { type Ask, shardContenders } from './contenders.ts'
import { costWhile, type DecisionCost } from './redis.ts'

/** Gateway processes that a million requests per second need. */
const CLIENTS = 68

/** This shard's part of 32 buckets on a Cluster of 12. */
const BUCKETS = 3

const KEYS = 10_000

/** More than that has no room on one of two cores. */
const RATES = [40_000, 60_000, 80_000]

/** The rate at which a shard is about as busy as the plan allows. */
const RATE = 60_000

/** A log costs twice as much. */
const LOG_RATE = 30_000

interface ShardCost extends DecisionCost {
  readonly perSecond: number
}

export async function measureShard(run: Run): Promise<Table> {
  run.progress('starts a cluster of 1')
  const cluster = await startCluster({ masters: 1, replicasPerMaster: 0 })
  run.onStop(() => cluster.stop())
  const core = setCoreAside(run)
  const [master] = cluster.masters
  moveToCore(core, master?.pid)
  const info = new Redis(master?.url ?? '')
  const clients = Array.from({ length: CLIENTS }, () => new Cluster([...cluster.addresses]))
  for (const each of [info, ...clients]) run.onStop(() => each.disconnect())
  const contenders = []
  for (const { name, isOurs, on } of shardContenders(BUCKETS)) {
    const asks = await Promise.all(clients.map(on))
    await Promise.all(asks.map((ask, at) => ask(`first:${at}`)))
    const rates = name.endsWith('slidingLog') ? [LOG_RATE] : name.includes(',') ? [RATE] : RATES
    for (const rate of rates) {
      const what = `${name}, ${rate.toLocaleString('en')} per second`
      contenders.push({ name: what, isOurs, run: () => costAt(asks, rate, run.isQuick, info) })
    }
  }
  const figures = await takeTurns(run, 'a shard', contenders, run.isQuick ? 1 : 3)
  return {
    name: 'cost-shard',
    title: `What a decision costs a shard of a Cluster, with ${CLIENTS} clients`,
    columns: [
      { name: 'per second', digits: 0 },
      { name: 'commands', digits: 3 },
      { name: 'µs of Redis', digits: 2 },
      { name: '% of its core', digits: 0 },
    ],
    rows: contenders.map(({ name, isOurs }) => {
      const rounds = figures.get(name) ?? []
      const of = (figure: (cost: ShardCost) => number) => median(rounds.map(figure))
      const share = of(({ perSecond, redisCpuUs }) => (perSecond * redisCpuUs) / 1e4)
      const costs = [of(({ commands }) => commands), of(({ redisCpuUs }) => redisCpuUs)]
      return { name, isOurs, cells: [of(({ perSecond }) => perSecond), ...costs, share] }
    }),
  }
}

/** Calls of clients that are drawn at random, at this rate. */
async function costAt(
  asks: readonly Ask[],
  rate: number,
  isQuick: boolean,
  master: Redis,
): Promise<ShardCost> {
  const durationMs = isQuick ? 200 : 1_500
  const startMs = performance.now()
  let tookMs = 0
  const cost = await costWhile([master], async () => {
    const open: Promise<unknown>[] = []
    while (tookMs < durationMs) {
      tookMs = performance.now() - startMs
      const due = Math.floor((tookMs * rate) / 1_000)
      while (open.length < due) {
        const ask = asks[Math.floor(Math.random() * asks.length)] as Ask
        open.push(ask(`user:${open.length % KEYS}`))
      }
      await new Promise((resolve) => setImmediate(resolve))
    }
    await Promise.all(open)
    tookMs = performance.now() - startMs
    return open.length
  })
  return { ...cost, perSecond: (cost.decisions * 1_000) / tookMs }
}
