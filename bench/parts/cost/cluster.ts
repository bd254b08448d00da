/** A Redis Cluster with three masters and a replica each, to measure the cost of a decision. */

import { Cluster, Redis } from 'ioredis'
import { startCluster } from '../../../test/support/servers/cluster.ts'
import type { Run } from '../../harness/part.ts'

/** As many clients as the largest load needs, and a connection to each master for statistics. */
export async function costCluster(
  run: Run,
  clientCount: number,
): Promise<{ clients: Cluster[]; masters: Redis[] }> {
  run.progress('starts a cluster')
  const cluster = await startCluster({ masters: 3, replicasPerMaster: 1 })
  run.onStop(() => cluster.stop())
  const clients = Array.from({ length: clientCount }, () => new Cluster([...cluster.addresses]))
  const masters = cluster.masters.map(({ url }) => new Redis(url))
  for (const each of [...clients, ...masters]) run.onStop(() => each.disconnect())
  return { clients, masters }
}
