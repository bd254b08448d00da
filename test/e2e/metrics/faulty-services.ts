/**
 * Services with one fault each, for a Prometheus that watches all of them. Each has a job of its
 * own, so that an alert shows which fault made it fire.
 */

import { connect } from 'node:net'
import { onTestFinished } from 'vitest'
import { gatewayDoor } from '../../../packages/server/src/probe/probe-doors.ts'
import { startProbeService } from '../../../packages/server/src/probe/probe-service.ts'
import { Prober } from '../../../packages/server/src/probe/prober.ts'
import { startFaultProxy } from '../../support/faults/fault-proxy.ts'
import { makeRegionCertificates } from '../../support/regions/region-certificates.ts'
import { startEtcd } from '../../support/servers/etcd/etcd.ts'
import { freePort } from '../../support/servers/ports.ts'
import { type RedisAddress, startRedis } from '../../support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { startBackend, startGatewayProcess } from '../cli/gateway-process.ts'
import { newPrefix } from '../control/fleet-node.ts'
import { probeLimit } from './busy-service.ts'
import { type MeteredService, startMeteredService, TOKEN } from './metered-service.ts'
import { workersOf } from './worker-processes.ts'

export interface FaultyService {
  readonly job: string
  readonly targets: readonly string[]
  /** Alerts that the fault makes fire, without the prefix `Tidegate`. */
  readonly alerts: readonly string[]
  /** Makes the fault, after Prometheus has seen the service without it. */
  fail?(): Promise<void> | void
  /** Requests that are sent all the time. */
  load?(): Promise<unknown>
}

const limits = [
  { name: 'few', key: { header: 'x-few' }, otherwise: 'skip', limit: 2, per: '1h' },
  { name: 'watched', key: 'ip', otherwise: 'skip', limit: 1, per: '1h', mode: 'shadow' },
  { name: 'all', key: 'everyone', limit: 1_000_000, per: '1h' },
]

const hostOf = ({ adminUrl }: MeteredService) => new URL(adminUrl).host

const times = async (count: number, ask: () => Promise<unknown>) => {
  await Promise.all(Array.from({ length: count }, ask))
}

const storeAt = ({ host, port }: Pick<RedisAddress, 'host' | 'port'>, more: object = {}) => ({
  store: { mode: 'standalone', addresses: [`${host}:${port}`], ...more },
})

async function ownRedis() {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  return redis
}

async function ownBackend(delayMs = 0) {
  const backend = await startBackend(delayMs)
  onTestFinished(() => backend.stop())
  return backend
}

/** Redis is killed, so that limits with `open` admit everything, also the prober. */
export async function killedStore(): Promise<readonly FaultyService[]> {
  const redis = await ownRedis()
  const own = { ...probeLimit, onStoreError: 'open' }
  const service = await startMeteredService({ ...storeAt(redis), limits: [...limits, own] })
  const prober = new Prober([gatewayDoor(`${service.service.gateway?.url}/probe`, 'probe')])
  const options = { prober, port: 0, everySeconds: 1, onWrong: () => undefined }
  const probe = await startProbeService(options)
  onTestFinished(() => probe.close())
  const burns = (slo: string) => [`${slo}BurnFast`, `${slo}BurnSlow`]
  return [
    {
      job: 'tidegate-killed-store',
      targets: [hostOf(service)],
      alerts: ['StoreDown', 'Degraded', ...burns('Availability')],
      fail: () => redis.kill('SIGKILL'),
      load: () => times(10, () => service.ask('/')),
    },
    {
      job: 'tidegate-probe',
      targets: [`127.0.0.1:${probe.address.port}`],
      alerts: ['ProbeWrong', ...burns('Accuracy')],
    },
  ]
}

/** Replies of Redis are late, and within the deadline. */
export async function slowStore(): Promise<FaultyService> {
  const proxy = await startFaultProxy(await ownRedis())
  onTestFinished(() => proxy.stop())
  const service = await startMeteredService({ ...storeAt(proxy, { deadline: '5s' }), limits })
  return {
    job: 'tidegate-slow-store',
    targets: [hostOf(service)],
    alerts: ['LatencyHigh', 'LatencyBurnFast', 'LatencyBurnSlow'],
    fail: () => proxy.set({ replies: { latencyMs: 40 } }),
    load: () => times(10, () => service.check({ limits: [{ name: 'few', key: [key()] }] })),
  }
}

/** Redis takes the permission for scripts away. */
export async function refusingStore(): Promise<FaultyService> {
  const redis = await ownRedis()
  const service = await startMeteredService({ ...storeAt(redis), limits })
  return {
    job: 'tidegate-refusing-store',
    targets: [hostOf(service)],
    alerts: ['StoreMisconfigured'],
    async fail() {
      await redis.command('ACL', 'SETUSER', 'default', '-evalsha', '-eval')
    },
    load: () => times(3, () => service.ask('/')),
  }
}

/**
 * A defect of the program, which no fault from outside can cause: every charge throws. The gateway
 * answers 500, and limits in shadow mode are not counted.
 */
export async function defective(): Promise<FaultyService> {
  // Without one that applies to all, so that requests without `x-few` get to the shadow alone.
  const own = limits.filter(({ name }) => name !== 'all')
  const service = await startMeteredService({ limits: own })
  const { store } = service.service.store
  const fail = () => {
    throw new TypeError('a defect')
  }
  return {
    job: 'tidegate-defective',
    targets: [hostOf(service)],
    alerts: ['Errors', 'ShadowFailures'],
    fail: () => void Object.assign(store, { chargeOne: fail, charge: fail }),
    async load() {
      await service.ask('/')
      await service.ask('/', { 'x-few': 'one' })
    },
  }
}

/** Two nodes, of which one ends. */
export async function endingNode(): Promise<FaultyService> {
  const services = await Promise.all([
    startMeteredService({ limits }),
    startMeteredService({ limits }),
  ])
  return {
    job: 'tidegate-ending-node',
    targets: services.map(hostOf),
    alerts: ['FewerNodes', 'NodeDown'],
    fail: () => services[1].service.close(),
  }
}

/** One client asks far more often than it may. */
export async function flooded(): Promise<FaultyService> {
  const redis = await ownRedis()
  const service = await startMeteredService({ ...storeAt(redis, { deadline: '5s' }), limits })
  const checks = Array.from({ length: 100 }, () => ({ limits: [{ name: 'few', key: ['one'] }] }))
  return {
    job: 'tidegate-flooded',
    targets: [hostOf(service)],
    alerts: ['DenialSpike', 'DenialShare', 'DenialShareHigh', 'HotKey'],
    load: () => times(30, () => service.check({ checks })),
  }
}

/** Two nodes: a policy that is refused, operators that turn limits off, and wrong tokens. */
export async function operated(): Promise<FaultyService> {
  const services = await Promise.all([
    startMeteredService({ limits }),
    startMeteredService({ limits: limits.slice(1) }),
  ])
  const [first, second] = services
  const put = async (path: string, body: object, token = TOKEN) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const init = { method: 'PUT', headers, body: JSON.stringify({ ...body, why: 'a test' }) }
    await (await fetch(`${first.adminUrl}${path}`, init)).arrayBuffer()
  }
  let wrongAtMs = Infinity
  return {
    job: 'tidegate-operated',
    targets: services.map(hostOf),
    alerts: ['PolicyRefused', 'PolicySplit', 'LimitingOff', 'LogInFailures'],
    async fail() {
      await put('/v1/switch', { limits: 'shadow', blocks: 'on', for: '1h' })
      second.write({ limits: 'none' })
      wrongAtMs = 0
    },
    async load() {
      if (Date.now() < wrongAtMs + WRONG_TOKENS_EVERY_MS) return
      wrongAtMs = Date.now()
      await wrongTokens(first.adminUrl)
    },
  }
}

/** At most ten attempts a minute are counted. The rule sees them if they come within seconds. */
const WRONG_TOKENS_EVERY_MS = 62_000

/** From several addresses: each one may fail 5 times a minute. */
async function wrongTokens(adminUrl: string): Promise<void> {
  const { port, host } = new URL(adminUrl)
  const head = `GET /v1/status HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer wrong\r\n`
  const attempts = Array.from({ length: 12 }, (_, at) => {
    const localAddress = `127.0.0.${10 + (at % 4)}`
    const socket = connect({ port: Number(port), host: '127.0.0.1', localAddress })
    socket.resume().end(`${head}connection: close\r\n\r\n`)
    return new Promise((resolve) => socket.once('close', resolve))
  })
  await Promise.all(attempts)
}

/** Nothing answers: neither the targets nor the service of tiers. There are many limits, too. */
export async function deadTargets(): Promise<FaultyService> {
  const url = `http://127.0.0.1:${await freePort()}`
  const many = Array.from({ length: 65 }, (_, at) => {
    return { name: `limit-${at}`, key: 'ip', otherwise: 'skip', limit: 1_000_000, per: '1h' }
  })
  const tiered = { name: 'tiered', key: 'user', otherwise: 'skip', limit: 9, per: '1h' }
  const service = await startMeteredService({
    upstreams: { api: { targets: [url], healthCheck: { path: '/', every: '500ms' } } },
    tiers: {
      names: ['small', 'big'],
      default: 'small',
      lookup: { url: `${url}/{key}`, by: 'user' },
      cache: { negativeTtl: '100ms' },
    },
    limits: [...many, { ...tiered, tiers: { big: { limit: 99 } } }],
  })
  return {
    job: 'tidegate-dead-targets',
    targets: [hostOf(service)],
    alerts: ['UpstreamDown', 'TargetDown', 'TierFailures', 'LabelOverflow'],
    async load() {
      await service.ask('/')
      await service.check({ request: { path: '/', identity: { user: key() } } })
    },
  }
}

/** An entry in etcd that is not valid, and then no etcd. */
export async function etcdAway(): Promise<FaultyService> {
  const etcd = await startEtcd()
  onTestFinished(() => etcd.stop())
  const prefix = newPrefix()
  const control = { node: 'a', etcd: { endpoints: etcd.endpoints, prefix } }
  const service = await startMeteredService({ control, limits })
  return {
    job: 'tidegate-etcd-away',
    targets: [hostOf(service)],
    alerts: ['EntryProblems', 'SourceStale'],
    async fail() {
      await etcd.ctl('put', `${prefix}live/blocks/x`, 'not an entry')
      await until('the entry is read', async () =>
        (await service.page()).includes('tidegate_entry_problems 1'),
      )
      etcd.members[0]?.kill('SIGKILL')
    },
  }
}

/** One request at a time, and a slow upstream. */
export async function overloaded(): Promise<FaultyService> {
  const backend = await ownBackend(200)
  const service = await startMeteredService({
    gateway: { listen: { host: '127.0.0.1', port: 0 }, overload: { requestsMax: 1 } },
    upstreams: { api: { targets: [backend.url] } },
    limits,
  })
  return {
    job: 'tidegate-overloaded',
    targets: [hostOf(service)],
    alerts: ['Overloaded'],
    load: () => times(5, () => service.ask('/')),
  }
}

/** One of two processes of a node is stopped. */
export async function hungWorker(): Promise<FaultyService> {
  const redis = await ownRedis()
  const backend = await ownBackend()
  const upstreams = { api: { targets: [backend.url] } }
  const gateway = await startGatewayProcess({
    policy: { ...storeAt(redis), upstreams, limits },
    args: ['--workers', '2'],
  })
  onTestFinished(async () => void (await gateway.stop()))
  const [worker = 0] = workersOf(gateway.child.pid)
  return {
    job: 'tidegate-hung-worker',
    targets: [`127.0.0.1:${gateway.adminPort}`],
    alerts: ['WorkerSilent'],
    fail() {
      process.kill(worker, 'SIGSTOP')
      onTestFinished(() => void process.kill(worker, 'SIGCONT'))
    },
  }
}

/** The other region of a node never answers, so that keys that live there have no home. */
export async function lostRegion(): Promise<FaultyService> {
  const redis = await ownRedis()
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const certificates = makeRegionCertificates(folder, ['eu', 'us'])
  const [own, other] = [await freePort(), await freePort()]
  const home = { name: 'home', key: { header: 'x-key' }, otherwise: 'skip', limit: 9, per: 'month' }
  const service = await startMeteredService({
    ...storeAt(redis),
    region: 'eu',
    regions: {
      list: { eu: { endpoint: `127.0.0.1:${own}` }, us: { endpoint: `127.0.0.1:${other}` } },
      link: { listen: { host: '127.0.0.1', port: own }, ...certificates.get('eu') },
    },
    limits: [{ ...home, algorithm: 'fixedWindow', regions: { mode: 'home' } }],
  })
  return {
    job: 'tidegate-lost-region',
    targets: [hostOf(service)],
    alerts: ['RegionDown', 'RegionCutOff'],
    load: () => service.ask('/', { 'x-key': key() }),
  }
}

/** No process listens. */
export async function missingNode(): Promise<FaultyService> {
  return {
    job: 'tidegate-missing-node',
    targets: [`127.0.0.1:${await freePort()}`],
    alerts: ['NodeDown'],
  }
}

/** Without a fault, and in memory, so that its decisions take no time on a busy machine. */
export async function healthy(): Promise<FaultyService> {
  const service = await startMeteredService({ limits })
  return {
    job: 'tidegate-healthy',
    targets: [hostOf(service)],
    alerts: [],
    load: () => times(3, () => service.ask('/')),
  }
}

let keys = 0

/** A key that was not used before. */
function key(): string {
  keys += 1
  return `key-${keys}`
}
