/**
 * What a decision costs the masters of clusters of several sizes. All masters share one core and
 * this process has the others: two cores cannot show the throughput of six masters, but their
 * processor time can be compared.
 */

import { Cluster, Redis } from 'ioredis'
import { createLimiter, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { startCluster } from '../../../test/support/servers/cluster.ts'
import { moveToCore, setCoreAside } from '../../harness/cores.ts'
import type { Run, Table } from '../../harness/part.ts'
import { median } from '../../harness/rounds.ts'
import { evenKeys, zipfKeys } from '../load/draws.ts'
import { cpuUsOf, measure, type RedisCaller, redisCallers } from '../redis/load.ts'

const KEYS = 10_000

/** So high that no request is denied, and that the most frequent keys can be leased. */
const LIMIT_PER_MINUTE = 1e9

const inFlights = [8, 32, 256, 2_000]

type Row = Table['rows'][number]

export async function measureMasters(run: Run): Promise<void> {
  const core = setCoreAside(run)
  const rows: Row[] = []
  for (const masters of run.isQuick ? [3] : [1, 3, 6]) {
    run.progress(`starts a cluster of ${masters}`)
    const cluster = await startCluster({ masters, replicasPerMaster: 0 })
    run.onStop(() => cluster.stop())
    for (const { pid } of cluster.masters) moveToCore(core, pid)
    const client = new Cluster([...cluster.addresses])
    const servers = cluster.masters.map(({ url }) => new Redis(url))
    for (const each of [client, ...servers]) run.onStop(() => each.disconnect())
    rows.push(...(await rowsOf(run, masters, client, servers)))
    for (const each of [client, ...servers]) each.disconnect()
    await cluster.stop()
  }
  run.table({
    name: 'cluster-masters',
    title: 'Processor time of all masters together per decision, in µs, by calls in flight',
    columns: inFlights.map((count) => ({ name: count.toLocaleString('en'), digits: 1 })),
    rows,
  })
}

async function rowsOf(
  run: Run,
  masters: number,
  client: Cluster,
  servers: readonly Redis[],
): Promise<Row[]> {
  const calls = run.isQuick ? 4_000 : 12_000
  const even = evenKeys(KEYS)
  const kinds = [
    { name: 'one limit', caller: oneLimit(client), keys: even },
    { name: "one limit, Zipf's law (1.1)", caller: oneLimit(client), keys: zipf(calls) },
    { name: 'three limits within one', caller: groupsWithin(client), keys: even },
  ]
  const rows: Row[] = []
  for (const { name, caller, keys } of kinds) {
    const cells: number[] = []
    for (const inFlight of inFlights) {
      run.progress(`${masters} masters, ${name}, ${inFlight} in flight`)
      const load = { inFlight, calls, keys }
      await measure(caller, load, async () => 0)
      const costs: number[] = []
      for (let round = 0; round < (run.isQuick ? 1 : 3); round += 1) {
        const beforeUs = await cpuUsOf(servers)
        await measure(caller, load, async () => 0)
        costs.push(((await cpuUsOf(servers)) - beforeUs) / calls)
      }
      cells.push(median(costs))
    }
    rows.push({
      name: `${masters} ${masters === 1 ? 'master' : 'masters'}, ${name}`,
      isOurs: true,
      cells,
    })
  }
  return rows
}

function zipf(draws: number): string[] {
  return zipfKeys(KEYS, 1.1, draws)
}

function oneLimit(client: Cluster): RedisCaller {
  const [ours] = redisCallers(client, LIMIT_PER_MINUTE)
  if (ours === undefined) throw new Error('there is no caller')
  return ours
}

/** Three limits of a user within an organisation; each organisation has its own slot. */
function groupsWithin(client: Cluster): RedisCaller {
  const limit = tokenBucket({ limit: LIMIT_PER_MINUTE, per: '60s' })
  const limiter = createLimiter({
    limits: { org: limit, user: limit, address: limit },
    within: 'org',
    store: redisStore(client, { prefix: 'groups' }),
    deadlineMs: 5_000,
  })
  return {
    name: 'three limits within one',
    call: (key) => limiter.check({ org: key, user: key, address: key }),
  }
}
