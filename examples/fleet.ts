/**
 * `./run.sh serve --etcd`: two gateways on ports 8080 and 8082 that follow one etcd. It changes a
 * limit, prints when each gateway had it, and runs until Ctrl+C. `PORT`, `SECOND_PORT` and
 * `BACKEND_PORT` set other ports.
 */

import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { runCli } from '../packages/server/src/cli/cli.ts'
import { type EtcdCluster, etcdBinary, startEtcd } from '../test/support/servers/etcd/etcd.ts'
import { portOf, type Running, refuseTaken, startBackend, startGatewayOf } from './processes.ts'

/** A gateway that follows etcd has a change within a second. */
const LIVE_MS_MAX = 30_000
const POLL_MS = 5

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop())

const running: Running[] = []
let etcd: EtcdCluster | undefined
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
  if (etcdBinary() === undefined) {
    throw new Error('etcd was not found; apt-get install etcd-server, or set TIDEGATE_ETCD')
  }
  const ports = [portOf('PORT') ?? 8080, portOf('SECOND_PORT') ?? 8082]
  const backendPort = portOf('BACKEND_PORT') ?? 8081
  await refuseTaken('BACKEND_PORT', backendPort)
  for (const [at, port] of ports.entries())
    await refuseTaken(at === 0 ? 'PORT' : 'SECOND_PORT', port)
  etcd = await startEtcd()
  console.log(`etcd: ${etcd.endpoints.join(', ')}`)
  running.push(await startBackend(backendPort, 'inherit'))
  const files = ports.map((port, at) => writeLocal(`gateway-${at + 1}`, port, backendPort))
  for (const [at, file] of files.entries()) {
    if (stopping) return
    running.push(await startGatewayOf(file, ports[at] ?? 0, 'ignore'))
    console.log(`gateway-${at + 1}: http://127.0.0.1:${ports[at]}`)
  }
  const [local = ''] = files
  for (const limit of [10, 20]) {
    if (!stopping) await publish(limit, local, ports)
  }
  console.log(`
Next:  ./run.sh tidegate policy status --config ${local}
       ./run.sh tidegate policy rollback 1 --why 'try it' --wait 5s --config ${local}
Ctrl+C stops everything.`)
}

/** Publishes a limit, and prints when each gateway had it. */
async function publish(limit: number, local: string, ports: readonly number[]): Promise<void> {
  const file = join(folder(), 'published.yaml')
  writeFileSync(
    file,
    `limits: [{ name: client, key: ip, otherwise: deny, limit: ${limit}, per: 1s }]\n`,
  )
  const seen = ports.map((port) => untilLive(port, limit))
  let text = ''
  const write = (part: string) => {
    text += part
  }
  const terminal = { environment: process.env, stdout: write, stderr: write }
  const why = ['--why', `a limit of ${limit}`, '--by', 'demo']
  const args = ['policy', 'publish', file, ...why, '--config', local, '--json']
  if ((await runCli(args, terminal)) !== 0) throw new Error(text.trim())
  const { version, at } = JSON.parse(text) as { readonly version: number; readonly at: string }
  console.log(`\npublished version ${version}: ${limit} requests per second`)
  for (const [index, liveAt] of (await Promise.all(seen)).entries()) {
    const afterMs = Math.max(0, liveAt - Date.parse(at))
    console.log(`  gateway-${index + 1} had it after ${afterMs} ms`)
  }
}

/** Returns the time of the first response with this limit. */
async function untilLive(port: number, limit: number): Promise<number> {
  const end = Date.now() + LIVE_MS_MAX
  while (Date.now() < end && !stopping) {
    const response = await fetch(`http://127.0.0.1:${port}/api/resource`)
    await response.arrayBuffer()
    if (response.headers.get('x-ratelimit-limit') === String(limit)) return Date.now()
    await sleep(POLL_MS)
  }
  throw new Error(`the gateway on port ${port} does not have the limit of ${limit}`)
}

/** The local file of a gateway: listener, upstream, and the etcd to follow. */
function writeLocal(node: string, port: number, backendPort: number): string {
  const file = join(folder(), `${node}.yaml`)
  const policy = {
    gateway: { listen: { host: '127.0.0.1', port } },
    upstreams: { api: { targets: [`http://127.0.0.1:${backendPort}`] } },
    control: {
      node,
      etcd: { endpoints: etcd?.endpoints, prefix: '/tidegate/demo/' },
      stateFile: `${node}.state`,
    },
    limits: [],
  }
  writeFileSync(file, `${JSON.stringify(policy, null, 2)}\n`)
  return file
}

function folder(): string {
  return etcd?.folder ?? ''
}

/** The gateways end before the etcd that they follow. */
function stop(): Promise<void> {
  stopping ??= (async () => {
    await Promise.all(running.map(({ end }) => end()))
    await etcd?.stop()
  })()
  return stopping
}
