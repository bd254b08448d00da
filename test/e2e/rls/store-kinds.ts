/** Real Redis servers of every kind that the service supports. */

import { join } from 'node:path'
import type { StoreSettings } from '../../../packages/server/src/stores/create-store.ts'
import { startCluster } from '../../support/servers/cluster.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { startSentinel } from '../../support/servers/sentinel.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'

export interface StoreKind {
  readonly store: StoreSettings
  /** A server whose clock the counters use; all servers of a machine share it. */
  readonly server: RedisServer
  stop(): Promise<unknown>
}

/** Longer than a machine stalls: a failover would lose counters, and is not the subject here. */
const PATIENT_MS = 15_000

export const addressOf = ({ host, port }: { host: string; port: number }) => `${host}:${port}`

export const storeKinds: Readonly<Record<string, () => Promise<StoreKind>>> = {
  'one server': async () => {
    const server = await startRedis()
    const store = { mode: 'standalone' as const, addresses: [addressOf(server)] }
    return { store, server, stop: () => server.stop() }
  },
  'one server with TLS and a password': async () => {
    const server = await startRedis({ tls: true, password: 'geheim' })
    const tls = server.tls === undefined ? {} : { ca: server.tls.ca }
    const addresses = [addressOf(server)]
    const store = { mode: 'standalone' as const, addresses, password: 'geheim', tls }
    return { store, server, stop: () => server.stop() }
  },
  'one server on a Unix socket': async () => {
    const folder = makeFolder()
    const path = join(folder, 'redis.sock')
    const server = await startRedis({ args: ['--unixsocket', path] })
    const stop = async () => {
      await server.stop()
      removeFolder(folder)
    }
    return { store: { mode: 'standalone', addresses: [path] }, server, stop }
  },
  Sentinel: async () => {
    const group = await startSentinel({ downAfterMs: PATIENT_MS })
    const addresses = group.addresses.map(addressOf)
    const store = { mode: 'sentinel' as const, addresses, sentinelName: group.name }
    return { store, server: await group.master(), stop: () => group.stop() }
  },
  Cluster: async () => {
    const cluster = await startCluster({ nodeTimeoutMs: PATIENT_MS })
    const addresses = cluster.addresses.map(addressOf)
    const server = cluster.masters[0] as RedisServer
    return { store: { mode: 'cluster', addresses }, server, stop: () => cluster.stop() }
  },
}

/** The time of the server in milliseconds since 1970. */
export async function serverNowMs({ server }: StoreKind): Promise<number> {
  const [seconds, microseconds] = (await server.command('TIME')) as [string, string]
  return Number(seconds) * 1_000 + Number(microseconds) / 1_000
}
