/** A service with all doors, Redis, etcd and a prober, with load that reaches every metric. */

import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import {
  decisionApiDoor,
  gatewayDoor,
  rlsDoor,
} from '../../../packages/server/src/probe/probe-doors.ts'
import { startProbeService } from '../../../packages/server/src/probe/probe-service.ts'
import { Prober } from '../../../packages/server/src/probe/prober.ts'
import { startEtcd } from '../../support/servers/etcd/etcd.ts'
import { freePort } from '../../support/servers/ports.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { startBackend } from '../cli/gateway-process.ts'
import { newPrefix } from '../control/fleet-node.ts'
import { type MeteredService, overload, startMeteredService, TOKEN } from './metered-service.ts'

export const probeLimit = {
  ...{ name: 'probe', key: { header: 'x-tidegate-probe' }, otherwise: 'skip' },
  ...{ limit: 10, per: '1h' },
}

/** More than have series of their own. */
const LIMITS = 65

const CONNECTIONS_MAX = 150

const header = (name: string, limit: number, more: object = {}) => ({
  ...{ name, key: { header: `x-${name}` }, otherwise: 'skip', limit, per: '1h', ...more },
})

const limits = [
  probeLimit,
  header('few', 2, { onStoreError: 'local' }),
  header('watched', 1, { mode: 'shadow' }),
  {
    name: 'tiered',
    key: 'user',
    otherwise: 'skip',
    limit: 9,
    per: '1s',
    tiers: { big: { limit: 99 } },
  },
  ...Array.from({ length: LIMITS }, (_, at) => header(`more-${at}`, 9)),
]

export interface BusyService {
  readonly service: MeteredService
  readonly probeAddress: string
  /** One turn of all kinds of requests, faults and changes. */
  turn(): Promise<void>
}

/** Closed when the test ends. */
export async function startBusyService(): Promise<BusyService> {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const etcd = await startEtcd()
  onTestFinished(() => etcd.stop())
  const backend = await startBackend()
  onTestFinished(() => backend.stop())
  const deadUrl = `http://127.0.0.1:${await freePort()}`
  const at = { host: '127.0.0.1', port: 0 }
  const policy = {
    store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] },
    gateway: { listen: at, overload, connectionsPerIpMax: CONNECTIONS_MAX },
    upstreams: {
      api: { targets: [backend.url, deadUrl], healthCheck: { path: '/', every: '200ms' } },
    },
    control: { node: 'a', etcd: { endpoints: etcd.endpoints, prefix: newPrefix() } },
    tiers: {
      names: ['small', 'big'],
      default: 'small',
      lookup: { url: `${deadUrl}/{key}`, by: 'user' },
      cache: { negativeTtl: '100ms' },
    },
    limits,
  }
  const service = await startMeteredService(policy)
  const probe = await startProbe(service)
  let turns = 0
  return {
    service,
    probeAddress: `127.0.0.1:${probe.address.port}`,
    async turn() {
      turns += 1
      await askAll(service, turns)
      await pauseRedis(redis, () => askAll(service, turns))
      service.write(turns % 2 === 0 ? { ...policy, limits: 'no' } : { ...policy, enabled: true })
      await changeAsOperator(service)
      await openConnections(service.port)
    },
  }
}

async function startProbe(service: MeteredService) {
  const prober = new Prober([
    gatewayDoor(`${service.service.gateway?.url}/tidegate-probe`, 'probe'),
    decisionApiDoor(service.apiUrl, 'probe', TOKEN),
    rlsDoor(service.rlsUrl, 'tidegate'),
  ])
  const options = { prober, port: 0, everySeconds: 1, onWrong: () => undefined }
  const probe = await startProbeService(options)
  onTestFinished(() => probe.close())
  return probe
}

async function askAll(service: MeteredService, turn: number): Promise<void> {
  const keys = { 'x-few': `few-${turn}`, 'x-watched': 'one' }
  const more = Array.from({ length: LIMITS }, (_, at) => [`x-more-${at}`, 'x'] as const)
  await Promise.all([
    ...Array.from({ length: 20 }, () => service.ask('/', keys)),
    service.ask('/', Object.fromEntries(more)),
    ...Array.from({ length: 5 }, () => service.check({ limits: [{ name: 'few', key: ['api'] }] })),
    ...Array.from({ length: 5 }, () => service.askRls({ 'x-few': 'rls' })),
    service.check({ request: { path: '/', identity: { user: `user-${turn}` } } }),
  ])
}

/** Long enough for decisions without Redis. */
async function pauseRedis(redis: RedisServer, during: () => Promise<void>): Promise<void> {
  redis.kill('SIGSTOP')
  await during()
  redis.kill('SIGCONT')
}

async function changeAsOperator({ adminUrl }: MeteredService): Promise<void> {
  const send = async (path: string, body: object, token = TOKEN) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const init = { method: 'PUT', headers, body: JSON.stringify({ ...body, why: 'a test' }) }
    await (await fetch(`${adminUrl}${path}`, init)).arrayBuffer()
  }
  await send('/v1/overrides', { limit: 'few', key: ['vip'], set: { limit: 50 }, for: '1h' })
  await send('/v1/blocks', { kind: 'user', value: 'mallory', for: '1h' })
  await send('/v1/switch', { limits: 'on' }, 'not-a-token')
}

/** More than one address may have. */
async function openConnections(port: number): Promise<void> {
  const sockets = Array.from({ length: CONNECTIONS_MAX + 10 }, (): Socket => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('error', () => undefined)
    return socket
  })
  await sleep(50)
  for (const socket of sockets) socket.destroy()
}
