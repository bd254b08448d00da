/** The first requests of an Express server, all at once, on a healthy Redis. */

import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { forkAt, nextMessage } from '../support/faults/fork-at.ts'
import { here } from '../support/servers/place.ts'
import { startRedis } from '../support/servers/redis.ts'
import { useServer } from '../support/use-server.ts'
import { burstOfConnections, exactReport } from './burst-connections.ts'
import type { ExpressPlan } from './burst-express-server.ts'

const redis = useServer(() => startRedis())
const clients = ['ioredis, lazyConnect', 'ioredis, lazyConnect, no offline queue'] as const

test.for(
  clients.flatMap((client) => [
    { client, connections: 500, limit: 100 },
    { client, connections: 2_000, limit: 3 },
  ]),
)('$connections with $client admit $limit', async ({ client, connections, limit }) => {
  const { host, port } = redis
  await redis.command('FLUSHALL')
  const plan: ExpressPlan = { client, address: { host, port }, limit }
  const child = forkAt(here, join(import.meta.dirname, 'burst-express-server.ts'), plan)
  try {
    const serverPort = (await nextMessage(child)) as number
    const burst = { connections, keys: 1, limit }
    expect(await burstOfConnections(serverPort, burst)).toEqual(exactReport(burst))
  } finally {
    const ended = once(child, 'exit')
    child.disconnect()
    await ended
  }
})
