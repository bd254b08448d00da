/**
 * Three regions on this machine: each has a Redis server of its own, and a proxy for each direction
 * between two of them adds the latency of a wide-area network and cuts it.
 */

import { type FaultProxy, startFaultProxyProcess } from '../faults/fault-proxy.ts'
import { type Network, startNetwork } from '../faults/network.ts'
import { here, type Place } from '../servers/place.ts'
import { freePort } from '../servers/ports.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { makeFolder, removeFolder } from '../servers/server-process.ts'
import { makeRegionCertificates } from './region-certificates.ts'

export const regionNames = ['ap', 'eu', 'us'] as const

export type RegionName = (typeof regionNames)[number]

export interface RegionWorld {
  readonly folder: string
  /** Where this process is for those of the regions. */
  readonly here: Place
  /** Where the processes of the region are. */
  place(region: RegionName): Place
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
  /**
   * Each region is a host of a network, and cuts drop packets: attempts to connect hang as well.
   * Otherwise proxies accept them, and deliver bytes that were sent during a cut after it.
   */
  readonly isNetwork?: boolean
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
  const network: Network<RegionName> | undefined = options.isNetwork
    ? startNetwork(regionNames)
    : undefined
  const place = (region: RegionName) => network?.places[region] ?? here
  const servers = await Promise.all(regionNames.map((name) => startRedis({ place: place(name) })))
  const ports = await Promise.all(regionNames.map(() => freePort()))
  const links = await startLinks(latencyMs, (to) => {
    return { place: place(to), port: ports[regionNames.indexOf(to)] ?? 0 }
  })
  const redis = (region: RegionName) => servers[regionNames.indexOf(region)] as RedisServer
  const setAll = async (chosen: readonly Link[], hang: boolean) => {
    if (network === undefined) {
      await Promise.all(chosen.map(({ proxy }) => proxy.set({ latencyMs, hang })))
      return
    }
    // Both directions of a link are cut at once, so one of its two proxies is enough.
    for (const { from, to } of chosen) if (from < to) network[hang ? 'cut' : 'heal'](from, to)
  }
  return {
    folder,
    here: network?.places.here ?? here,
    place,
    redis,
    sections(region) {
      const endpoint = (to: RegionName) => {
        const link = links.find((one) => one.from === region && one.to === to)
        return `${place(to).host}:${link?.proxy.port ?? ports[regionNames.indexOf(to)]}`
      }
      const list = regionNames.map((name) => [name, { endpoint: endpoint(name) }])
      const listen = { host: place(region).host, port: ports[regionNames.indexOf(region)] }
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
      network?.stop()
      removeFolder(folder)
    },
  }
}

/** A proxy for each direction, at the place of its target. */
function startLinks(
  latencyMs: number,
  targetOf: (to: RegionName) => { readonly place: Place; readonly port: number },
): Promise<readonly Link[]> {
  const pairs = regionNames.flatMap((from) =>
    regionNames.filter((to) => to !== from).map((to) => ({ from, to })),
  )
  return Promise.all(
    pairs.map(async ({ from, to }) => {
      const { place, port } = targetOf(to)
      const proxy = await startFaultProxyProcess({ host: place.host, port }, place)
      await proxy.set({ latencyMs })
      return { from, to, proxy }
    }),
  )
}
