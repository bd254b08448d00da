/** A gateway process that has just started, and thousands of connections at once. */

import { startBackend, startGatewayProcess } from '../e2e/cli/gateway-process.ts'
import { startRedis } from '../support/servers/redis.ts'
import {
  burstOfConnections,
  type ConnectionsBurst,
  type ConnectionsReport,
} from './burst-connections.ts'

/** The test connects from one address, for which the default allows fewer connections. */
const CONNECTIONS_MAX = 10_000

export async function burstOnGateway(burst: ConnectionsBurst): Promise<ConnectionsReport> {
  const stops: (() => Promise<unknown>)[] = []
  try {
    const redis = await startRedis()
    stops.push(() => redis.stop())
    const backend = await startBackend()
    stops.push(() => backend.stop())
    const gateway = await startGatewayProcess({
      policy: {
        gateway: { connectionsPerIpMax: CONNECTIONS_MAX },
        upstreams: {
          api: { targets: [backend.url], waitingMax: CONNECTIONS_MAX, clientShareMax: 1 },
        },
        store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] },
        limits: [
          { name: 'per-key', key: 'apiKey', otherwise: 'deny', limit: burst.limit, per: '1d' },
        ],
      },
    })
    stops.push(() => gateway.stop())
    return await burstOfConnections(gateway.port, burst)
  } finally {
    for (const stop of stops.reverse()) await stop()
  }
}
