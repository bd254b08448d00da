/**
 * One of several processes that share limits. It connects, reports that it is ready, and makes all
 * attempts of a round at once for each message. Started by `startWorkers`.
 */

import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { redisClientKinds } from '../support/servers/clients.ts'
import type { RedisCluster } from '../support/servers/cluster.ts'
import { type Scenario, scenariosOn } from './scenarios.ts'

export interface WorkerPlan {
  /** The name of one of `redisClientKinds`. */
  readonly client: string
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  readonly isCluster: boolean
}

export interface Round {
  readonly scenario: Scenario
  readonly key: string
  readonly attempts: number
}

export interface RoundResult {
  readonly admitted: number
  /** Errors of attempts that were neither admitted nor denied. */
  readonly failures: readonly string[]
}

const { client, close } = await connect(JSON.parse(process.argv[2] ?? ''))
const { attempt } = scenariosOn(redisStore(client, { timeoutMs: PATIENCE_MS }))

process.on('message', async ({ scenario, key, attempts }: Round) => {
  const running = Array.from({ length: attempts }, () => attempt(scenario, key))
  const results = await Promise.allSettled(running)
  const admitted = results.filter((result) => result.status === 'fulfilled' && result.value)
  const failures = results.flatMap((result) =>
    result.status === 'rejected' ? String(result.reason) : [],
  )
  process.send?.({ admitted: admitted.length, failures } satisfies RoundResult)
})
process.once('disconnect', () => {
  close()
  // Its long timeouts would keep the process alive.
  process.exit()
})
process.send?.('ready')

async function connect({ client: name, addresses, isCluster }: WorkerPlan) {
  const kind = redisClientKinds.find((known) => known.name === name)
  const [first] = addresses
  if (kind === undefined || first === undefined) throw new Error(`no such client: ${name}`)
  // Clients use only the addresses of a cluster.
  if (isCluster) return kind.cluster({ addresses } as RedisCluster)
  return kind.single({ ...first, password: undefined, tls: undefined })
}
