/** A Redis Cluster with three masters and a replica each, to measure the cost of a decision. */

import { Cluster, Redis } from 'ioredis'
import { startCluster } from '../../../test/support/servers/cluster.ts'
import type { Run } from '../../harness/part.ts'

export async function costCluster(run: Run): Promise<{ client: Cluster; masters: Redis[] }> {
  run.progress('starts a cluster')
  const cluster = await startCluster({ masters: 3, replicasPerMaster: 1 })
  run.onStop(() => cluster.stop())
  const client = new Cluster([...cluster.addresses])
  const masters = cluster.masters.map(({ url }) => new Redis(url))
  for (const each of [client, ...masters]) run.onStop(() => each.disconnect())
  return { client, masters }
}
