/**
 * Three regions on this machine: each has a Redis server of its own, and a proxy for each direction
 * between two of them adds the latency of a wide-area network and cuts it.
 */

import { type FaultProxy, startFaultProxyProcess } from '../faults/fault-proxy.ts'
import { freePort, LOOPBACK } from '../servers/ports.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { makeFolder, removeFolder } from '../servers/server-process.ts'
import { makeRegionCertificates } from './region-certificates.ts'

export const regionNames = ['ap', 'eu', 'us'] as const

export type RegionName = (typeof regionNames)[number]

export interface RegionWorld {
  readonly folder: string
  redis(region: RegionName): RedisServer
  /** The sections of the policy of a region, without limits. */
  sections(region: RegionName): object
  /** Drops all bytes between two regions, in both directions. */
  cut(one: RegionName, other: RegionName): Promise<void>
  /** Drops all bytes between a region and the others. */
  isolate(region: RegionName): Promise<void>
  heal(): Promise<void>
  /** Bytes that crossed all links, in both directions. */
  bytes(): Promise<number>
  stop(): Promise<void>
}

export interface WorldOptions {
  /** The latency of a direction. Default: 45, which is 90 ms for a round trip. */
  readonly latencyMs?: number
  readonly token?: { readonly env: string }
  readonly deadline?: string
}

interface Link {
  readonly from: RegionName
  readonly to: RegionName
  readonly proxy: FaultProxy
}

const LATENCY_MS_DEFAULT = 45

export async function startRegionWorld(options: WorldOptions = {}): Promise<RegionWorld> {
  const { latencyMs = LATENCY_MS_DEFAULT } = options
  const folder = makeFolder()
  const certificates = makeRegionCertificates(folder, regionNames)
  const servers = await Promise.all(regionNames.map(() => startRedis()))
  const ports = await Promise.all(regionNames.map(() => freePort()))
  const pairs = regionNames.flatMap((from) =>
    regionNames.filter((to) => to !== from).map((to) => ({ from, to })),
  )
  const links: Link[] = await Promise.all(
    pairs.map(async ({ from, to }) => {
      const proxy = await startFaultProxyProcess({ port: ports[regionNames.indexOf(to)] ?? 0 })
      await proxy.set({ latencyMs })
      return { from, to, proxy }
    }),
  )
  const redis = (region: RegionName) => servers[regionNames.indexOf(region)] as RedisServer
  const setAll = async (chosen: readonly Link[], hang: boolean) => {
    await Promise.all(chosen.map(({ proxy }) => proxy.set({ latencyMs, hang })))
  }
  return {
    folder,
    redis,
    sections(region) {
      const endpoint = (to: RegionName) => {
        const link = links.find((one) => one.from === region && one.to === to)
        return `${LOOPBACK}:${link?.proxy.port ?? ports[regionNames.indexOf(to)]}`
      }
      const list = regionNames.map((name) => [name, { endpoint: endpoint(name) }])
      const listen = { host: LOOPBACK, port: ports[regionNames.indexOf(region)] }
      const { deadline, token } = options
      const { host, port } = redis(region)
      return {
        region,
        regions: {
          list: Object.fromEntries(list),
          link: { listen, ...certificates.get(region), token, deadline },
        },
        // Long: a busy machine must not look like an outage, in which limits admit.
        store: { mode: 'standalone', addresses: [`${host}:${port}`], deadline: '30s' },
      }
    },
    cut: (one, other) =>
      setAll(
        links.filter(({ from, to }) => [from, to].includes(one) && [from, to].includes(other)),
        true,
      ),
    isolate: (region) =>
      setAll(
        links.filter(({ from, to }) => from === region || to === region),
        true,
      ),
    heal: () => setAll(links, false),
    async bytes() {
      const all = await Promise.all(links.map(({ proxy }) => proxy.traffic()))
      return all.reduce((sum, { requestBytes, replyBytes }) => sum + requestBytes + replyBytes, 0)
    },
    async stop() {
      await Promise.all(links.map(({ proxy }) => proxy.stop()))
      await Promise.all(servers.map((server) => server.stop()))
      removeFolder(folder)
    },
  }
}
