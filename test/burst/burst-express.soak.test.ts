/** The first requests of an Express server, all at once, on a healthy Redis. */

import { once } from 'node:events'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { forkAt, nextMessage } from '../support/faults/fork-at.ts'
import { here } from '../support/servers/place.ts'
import { startRedis } from '../support/servers/redis.ts'
import { useServer } from '../support/use-server.ts'
import { burstOfConnections, type ConnectionsBurst, exactReport } from './burst-connections.ts'
import type { ExpressPlan } from './burst-express-server.ts'
import { burstOnHealthyRedis } from './burst-witness.ts'

const redis = useServer(() => startRedis())
const clients = ['ioredis, lazyConnect', 'ioredis, lazyConnect, no offline queue'] as const

test.for(
  clients.flatMap((client) => [
    { client, connections: 500, limit: 100 },
    { client, connections: 2_000, limit: 3 },
  ]),
)('$connections with $client admit $limit', async ({ client, connections, limit }) => {
  const burst = { connections, keys: 1, limit }
  const address = { host: redis.host, port: redis.port }
  const report = await burstOnHealthyRedis(
    [address],
    () => burstOnServer({ client, address, limit }, burst),
    (each) => isDeepStrictEqual(each, exactReport(burst)),
  )
  expect(report).toEqual(exactReport(burst))
})

/** A burst on a server that has just started, with empty counters. */
async function burstOnServer(plan: ExpressPlan, burst: ConnectionsBurst) {
  await redis.command('FLUSHALL')
  const child = forkAt(here, join(import.meta.dirname, 'burst-express-server.ts'), plan)
  try {
    return await burstOfConnections((await nextMessage(child)) as number, burst)
  } finally {
    const ended = once(child, 'exit')
    child.disconnect()
    await ended
  }
}
