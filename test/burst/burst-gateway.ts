/** A gateway process that has just started, and thousands of connections at once. */

import { isDeepStrictEqual } from 'node:util'
import { startBackend, startGatewayProcess } from '../e2e/cli/gateway-process.ts'
import { startRedis } from '../support/servers/redis.ts'
import {
  burstOfConnections,
  type ConnectionsBurst,
  type ConnectionsReport,
  exactReport,
} from './burst-connections.ts'
import { firstOnHealthyRedis, Witness } from './burst-witness.ts'

/** The test connects from one address, for which the default allows fewer connections. */
const CONNECTIONS_MAX = 10_000

/** A burst on a gateway that has just started, again with another if Redis was silent. */
export async function burstOnGateway(burst: ConnectionsBurst): Promise<ConnectionsReport> {
  const isExact = (report: ConnectionsReport) => isDeepStrictEqual(report, exactReport(burst))
  return firstOnHealthyRedis(() => burstOnNewGateway(burst), isExact)
}

async function burstOnNewGateway(burst: ConnectionsBurst) {
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
    const witness = new Witness([{ host: redis.host, port: redis.port }])
    const report = await burstOfConnections(gateway.port, burst)
    return { report, silentMs: await witness.stop() }
  } finally {
    for (const stop of stops.reverse()) await stop()
  }
}
