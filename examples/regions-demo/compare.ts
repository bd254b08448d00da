/**
 * What each way to share a limit between regions costs, in one set-up: three regions on this
 * machine, 90 ms apart. Beside the modes: each region for itself, a G-Counter that is merged later
 * (`shared` with all of the limit unseen), and one Redis for all regions.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { type FaultProxy, startFaultProxyProcess } from '../../test/support/faults/fault-proxy.ts'
import {
  type Backend,
  type RegionGateway,
  startBackend,
  startRegionGateway,
} from '../../test/support/regions/region-gateway.ts'
import {
  type RegionName,
  type RegionWorld,
  regionNames,
  startRegionWorld,
} from '../../test/support/regions/region-world.ts'
import { makeFolder, removeFolder } from '../../test/support/servers/server-process.ts'
import { until } from '../../test/support/servers/until.ts'

const LIMIT = 300
const KEYS = 8
const LATENCY_MS = 45
const IDLE_MS = 1_500

/** Requests of each choice whose time is measured, and before them. */
const ROUNDS = 2_000
const WARM_ROUNDS = 200

/** Not a multiple of the keys, so that all of them come. */
const SLOW_EVERY = 9
const ONE_REDIS = 'one Redis for all regions'

/** A store that is too slow on a busy machine must not admit anything. */
const limit = { algorithm: 'fixedWindow', onStoreError: 'closed' }
const quota = { ...limit, limit: LIMIT, per: 'month' }
const busy = { ...limit, limit: 240, per: '1h' }
const timed = { ...limit, limit: 3_000, per: '1h' }

interface Choice {
  readonly label: string
  readonly name: string
  /** Bytes are not measured, because it has no messages, or those of `shared`. */
  readonly isSilent: boolean
  readonly regions?: object
}

const choices: readonly Choice[] = [
  { label: 'each region for itself', name: 'alone', isSilent: true },
  {
    ...{ label: 'a G-Counter, merged later', name: 'plain', isSilent: true },
    regions: { mode: 'shared', blind: 3 },
  },
  { label: ONE_REDIS, name: 'one', isSilent: false },
  ...['partition', 'shared', 'home', 'escrow'].map((mode) => {
    return {
      ...{ label: `\`${mode}\``, name: mode, isSilent: mode === 'partition' },
      regions: { mode },
    }
  }),
]

const limits = choices.flatMap(({ name, regions }) => {
  const shared = regions === undefined ? {} : { regions }
  return [
    { ...quota, ...shared, name },
    ...Object.entries({ busy, timed }).map(([use, numbers]) => ({
      ...numbers,
      // Without a reserve, which would decide about the first requests of each key.
      ...(name === 'home' ? { regions: { mode: name, reserve: 0 } } : shared),
      name: `${name}-${use}`,
    })),
  ]
})

type Gateways = readonly RegionGateway[]

interface Load {
  readonly perSecond: number
  readonly forMs: number
  readonly keys?: number
}

const world = await startRegionWorld({ latencyMs: LATENCY_MS, deadline: '1s' })
const backend = await startBackend()
const central = await startCentral(world, backend)
const gateways: RegionGateway[] = []
try {
  const starting = regionNames.map((name) => startRegionGateway(world, name, backend, limits))
  gateways.push(...(await Promise.all(starting)))
  await until('all regions reach one another', async () => {
    const states = await Promise.all(gateways.map((gateway) => gateway.isConnected()))
    return states.every(Boolean)
  })
  await printTable()
} finally {
  await Promise.all(gateways.map((gateway) => gateway.stop()))
  await central.stop()
  backend.stop()
  await world.stop()
}

async function printTable(): Promise<void> {
  const tookMs = await latencies()
  const heading = [
    'all ask at once',
    'beyond',
    'a region alone',
    'p50',
    'p99',
    'bytes per decision',
  ]
  const cells = ['', ...heading]
  console.info(`| ${cells.join(' | ')} |\n|${'---|'.repeat(cells.length)}`)
  for (const [index, { label, name, isSilent }] of choices.entries()) {
    const used = gatewaysOf(label)
    const lone = used.filter(({ region }) => region === 'us')
    const alone = await load(lone, name, { perSecond: 120, forMs: 4_000 })
    const burst = await load(used, `${name}#burst`, { perSecond: 1_000, forMs: 300 })
    const later = await load(used, `${name}#burst`, { perSecond: 100, forMs: 2_000 })
    const admitted = burst.admitted + later.admitted
    const bytes = isSilent ? '–' : (await bytesPerDecision(label, name)).toFixed(1)
    const sorted = (tookMs[index] ?? []).toSorted((one, other) => one - other)
    const at = (part: number) => `${(sorted[Math.floor(sorted.length * part)] ?? 0).toFixed(2)} ms`
    const row = [
      ...[label, `${admitted} of ${LIMIT}`, percent(admitted / LIMIT - 1)],
      ...[percent(alone.admitted / LIMIT), at(0.5), at(0.99), bytes],
    ]
    console.info(`| ${row.join(' | ')} |`)
  }
}

/**
 * One request at a time in us, of each choice in turn, so that a busy machine delays all of them
 * and no request waits for another one. Those that cross the ocean come less often.
 */
async function latencies(): Promise<readonly (readonly number[])[]> {
  const tookMs = choices.map((): number[] => [])
  for (let round = -WARM_ROUNDS; round < ROUNDS; round++) {
    for (const [at, { label, name }] of choices.entries()) {
      if (['home', 'one'].includes(name) && round % SLOW_EVERY !== 0) continue
      const gateway = gatewaysOf(label).find(({ region }) => region === 'us')
      const answer = await gateway?.ask(`${name}-timed`, `key ${Math.abs(round) % KEYS}`)
      if (round >= 0 && answer?.status === 200) tookMs[at]?.push(answer.tookMs)
    }
  }
  return tookMs
}

/** Bytes between regions for keys in use, without those of pings and of other limits. */
async function bytesPerDecision(label: string, name: string): Promise<number> {
  const bytesOf = () => (label === ONE_REDIS ? central.bytes() : world.bytes())
  const used = gatewaysOf(label)
  // A key of `shared` is exchanged from a quarter of its share on, which is 20 units.
  await load(used, `${name}-busy`, { perSecond: 60, forMs: 3_000, keys: KEYS })
  const first = await bytesOf()
  const { tookMs } = await load(used, `${name}-busy`, { perSecond: 60, forMs: 4_000, keys: KEYS })
  const second = await bytesOf()
  await sleep(IDLE_MS)
  const third = await bytesOf()
  await sleep(IDLE_MS)
  const idle = ((await bytesOf()) - third) / IDLE_MS
  return Math.max(0, second - first - idle * 4_000) / tookMs.length
}

function gatewaysOf(label: string): Gateways {
  return label === ONE_REDIS ? central.gateways : gateways
}

/** Requests in all of these regions at a steady rate. A part after `#` is the key. */
async function load(used: Gateways, path: string, { perSecond, forMs, keys = 1 }: Load) {
  const [name = '', key = 'alone'] = path.split('#')
  const tookMs: number[] = []
  const asked: Promise<void>[] = []
  let admitted = 0
  const ask = async (gateway: RegionGateway, at: number) => {
    const answer = await gateway.ask(name, `${key} ${at % keys}`)
    tookMs.push(answer.tookMs)
    if (answer.status === 200) admitted++
  }
  const startMs = performance.now()
  for (let sent = 0; performance.now() - startMs < forMs; ) {
    const due = ((performance.now() - startMs) * perSecond) / 1_000
    for (; sent < due; sent++) for (const gateway of used) asked.push(ask(gateway, sent))
    await sleep(5)
  }
  await Promise.all(asked)
  return { admitted, tookMs }
}

/** The gateways of all regions with the Redis of eu, which is 90 ms away from the others. */
async function startCentral(regions: RegionWorld, to: Backend) {
  const folder = makeFolder()
  const { host, port } = regions.redis('eu')
  const proxies = new Map<RegionName, FaultProxy>()
  for (const region of regionNames.filter((name) => name !== 'eu')) {
    const proxy = await startFaultProxyProcess({ port })
    await proxy.set({ latencyMs: LATENCY_MS })
    proxies.set(region, proxy)
  }
  const sections = (region: RegionName) => ({
    region,
    store: {
      mode: 'standalone',
      addresses: [`${host}:${proxies.get(region)?.port ?? port}`],
      deadline: '30s',
    },
  })
  const plain = limits.filter(({ name }) => name.startsWith('one'))
  const started = regionNames.map((name) => {
    return startRegionGateway({ ...regions, folder, sections }, name, to, plain)
  })
  return {
    gateways: await Promise.all(started),
    async bytes() {
      const all = await Promise.all([...proxies.values()].map((proxy) => proxy.traffic()))
      return all.reduce((sum, { requestBytes, replyBytes }) => sum + requestBytes + replyBytes, 0)
    },
    async stop() {
      await Promise.all((await Promise.all(started)).map((gateway) => gateway.stop()))
      await Promise.all([...proxies.values()].map((proxy) => proxy.stop()))
      removeFolder(folder)
    },
  }
}

function percent(part: number): string {
  return `${Math.max(0, part * 100).toFixed(0)} %`
}
