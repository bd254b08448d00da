/** The services that are compared, each in a process of its own, with the same limit and Redis. */

import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { request, rlsClient } from '../../test/rls/rls-client.ts'
import { freePort } from '../../test/servers/ports.ts'
import { until } from '../../test/servers/until.ts'

export interface Service {
  readonly name: string
  readonly port: number
  stop(): void
}

/** A limit that nobody reaches: what is measured is counting, not refusing. */
const config = `
domain: bench
descriptors:
  - key: tenant
    rate_limit: { unit: second, requests_per_unit: 1000000000 }
`

/** As the reference has it: files in `config` below the root of its runtime. */
export function writeConfig(folder: string): string {
  const directory = join(folder, 'config')
  mkdirSync(directory, { recursive: true })
  writeFileSync(join(directory, 'config.yaml'), config)
  return directory
}

export function startOurs(
  directory: string,
  redis: string,
  transport: 'own' | 'node',
): Promise<Service> {
  const name = `tidegate, transport ${transport}`
  return forked(name, 'rls-server.ts', [directory, redis, transport])
}

export function startBare(): Promise<Service> {
  return forked('bare node:http2', 'rls-bare-server.ts', [])
}

/** envoyproxy/ratelimit, where it is installed; undefined where it is not. */
export async function startReference(folder: string, redis: string): Promise<Service | undefined> {
  const binary = [
    process.env.TIDEGATE_RATELIMIT ?? '',
    join(import.meta.dirname, '../../.tools/ratelimit/service_cmd'),
  ].find((path) => path !== '' && existsSync(path))
  if (binary === undefined) return undefined
  const [port, http, debug] = await Promise.all([freePort(), freePort(), freePort()])
  const child = spawn(binary, {
    stdio: 'ignore',
    env: {
      ...process.env,
      GRPC_PORT: String(port),
      PORT: String(http),
      DEBUG_PORT: String(debug),
      USE_STATSD: 'false',
      LOG_LEVEL: 'error',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: redis,
      RUNTIME_ROOT: folder,
      RUNTIME_SUBDIRECTORY: '',
      RUNTIME_WATCH_ROOT: 'false',
    },
  })
  const service = { name: 'envoyproxy/ratelimit', port, stop: () => void child.kill() }
  await untilCounting(service)
  return service
}

/** That it counts, asked by a real client: load generators do not look at answers. */
export async function untilCounting({ name, port }: Pick<Service, 'name' | 'port'>): Promise<void> {
  const client = rlsClient(port)
  const ask = async () => {
    const { statuses } = await client.ask(request('bench', ['tenant=t0']))
    return statuses[0]?.current_limit === null ? undefined : statuses[0]
  }
  const first = await until(`${name} answers`, ask)
  const second = await ask()
  if (first.code !== 'OK' || second?.code !== 'OK') throw new Error(`${name} does not count`)
  client.close()
}

async function forked(name: string, program: string, args: string[]): Promise<Service> {
  const child: ChildProcess = fork(join(import.meta.dirname, program), args)
  const [port] = (await once(child, 'message')) as [number]
  return { name, port, stop: () => void child.kill() }
}
