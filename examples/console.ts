/**
 * `./run.sh console`: the gateway with its console, the sample backend and traffic, until Ctrl+C.
 * Counters are in a Redis if `redis-server` is installed, else in memory; with an etcd, policies
 * can be published. `PORT`, `ADMIN_PORT` and `BACKEND_PORT` set other ports.
 */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type EtcdCluster, etcdBinary, startEtcd } from '../test/support/servers/etcd/etcd.ts'
import { type RedisServer, startRedis } from '../test/support/servers/redis.ts'
import { redisBinary } from '../test/support/servers/redis-binary.ts'
import { startTraffic } from './console-traffic.ts'
import { portOf, type Running, refuseTaken, startBackend, startGatewayOf } from './processes.ts'

const TOKEN_VARIABLE = 'TIDEGATE_ADMIN_TOKEN'

const limits = [
  { name: 'per-client', key: 'ip', limit: 20, per: '1s', burst: 40 },
  { name: 'search', match: { path: '/api/search' }, key: 'ip', limit: 120, per: '1m' },
  { name: 'writes', match: { methods: ['POST'] }, key: 'ip', limit: 5, per: '1s' },
  {
    ...{ name: 'next-year', key: 'ip', algorithm: 'slidingWindow', limit: 300, per: '1m' },
    mode: 'shadow',
  },
]

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop())

const folder = mkdtempSync(join(tmpdir(), 'tidegate-console-'))
const running: Running[] = []
let etcd: EtcdCluster | undefined
let redis: RedisServer | undefined
let endTraffic: (() => void) | undefined
let stopping: Promise<void> | undefined

try {
  await demonstrate()
  const [first] = await Promise.race(running.map(({ child }) => once(child, 'exit')))
  if (!stopping) process.exitCode = typeof first === 'number' && first !== 0 ? first : 1
} catch (error) {
  if (!stopping) {
    console.error(`run.sh: ${(error as Error).message}`)
    process.exitCode = 1
  }
} finally {
  await stop()
}

async function demonstrate(): Promise<void> {
  const port = portOf('PORT') ?? 8080
  const adminPort = portOf('ADMIN_PORT') ?? 8083
  const backendPort = portOf('BACKEND_PORT') ?? 8081
  await refuseTaken('PORT', port)
  await refuseTaken('ADMIN_PORT', adminPort)
  await refuseTaken('BACKEND_PORT', backendPort)
  if (hasProgram(redisBinary)) redis = await startRedis()
  if (etcdBinary() !== undefined) etcd = await startEtcd()
  running.push(await startBackend(backendPort, 'ignore'))
  // Random for each run: the console asks for it once and keeps a session instead.
  const token = randomBytes(32).toString('base64url')
  process.env[TOKEN_VARIABLE] = token
  const file = writePolicy(port, adminPort, backendPort)
  running.push(await startGatewayOf(file, port, 'ignore'))
  if (etcd !== undefined) await publish(adminPort, token)
  endTraffic = startTraffic(port)
  const store = redis === undefined ? 'memory' : `Redis on port ${redis.port}`
  const source = etcd === undefined ? 'its file; without etcd, nothing can be published' : 'etcd'
  console.log(`
The gateway listens on http://127.0.0.1:${port}, with counters in ${store}
and its policy from ${source}. 30 clients send requests, and one of them floods.

Open the console; the link logs you in:

  http://127.0.0.1:${adminPort}/console/#token=${token}

In a terminal:  TIDEGATE_TOKEN=${token} ./run.sh tidegate top --admin http://127.0.0.1:${adminPort}

Ctrl+C stops everything.`)
}

function hasProgram(find: () => string | undefined): boolean {
  try {
    return find() !== undefined
  } catch {
    return false
  }
}

function writePolicy(port: number, adminPort: number, backendPort: number): string {
  const file = join(folder, 'tidegate.yaml')
  const store =
    redis === undefined
      ? { mode: 'memory' }
      : { mode: 'standalone', addresses: [`127.0.0.1:${redis.port}`] }
  const policy = {
    store,
    gateway: { listen: { host: '127.0.0.1', port }, trustProxy: ['127.0.0.1'] },
    upstreams: { api: { targets: [`http://127.0.0.1:${backendPort}`] } },
    admin: { listen: { port: adminPort }, token: { env: TOKEN_VARIABLE } },
    ...(etcd !== undefined && {
      control: { node: 'gateway-1', etcd: { endpoints: etcd.endpoints, prefix: '/tidegate/' } },
    }),
    limits: etcd === undefined ? limits : [],
  }
  writeFileSync(file, `${JSON.stringify(policy, null, 2)}\n`)
  return file
}

/** The first version, so that there is one to change. */
async function publish(adminPort: number, token: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/v1/policy`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'if-match': '"0"',
    },
    body: JSON.stringify({ text: limitsText(), why: 'the first limits' }),
  })
  if (!response.ok) throw new Error(await response.text())
}

function limitsText(): string {
  const lines = limits.map((limit) => {
    const fields = Object.entries(limit).map(([name, value]) => `${name}: ${yaml(value)}`)
    return `  - { ${fields.join(', ')} }\n`
  })
  return `limits:\n${lines.join('')}`
}

/** Plain texts need no quotes; the rest of JSON is YAML. */
function yaml(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** The gateway ends before the servers that it uses. */
function stop(): Promise<void> {
  stopping ??= (async () => {
    endTraffic?.()
    await Promise.all(running.map(({ end }) => end()))
    await Promise.all([etcd?.stop(), redis?.stop()])
    rmSync(folder, { recursive: true, force: true })
  })()
  return stopping
}
