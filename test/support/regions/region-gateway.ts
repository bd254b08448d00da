/** The gateway of a region as a process of its own, in front of a backend that admits all. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent, createServer, type RequestOptions, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { programFile } from '../program.ts'
import { freePort, LOOPBACK } from '../servers/ports.ts'
import { until } from '../servers/until.ts'
import type { RegionName, RegionWorld } from './region-world.ts'

export interface RegionGateway {
  readonly region: RegionName
  readonly adminPort: number
  /** Sends a request that a limit `name` counts by this key, and returns its status. */
  ask(name: string, key: string): Promise<RegionAnswer>
  /** The page of metrics. */
  metrics(): Promise<string>
  isConnected(): Promise<boolean>
  /** Gives up another region, as an operator does. Returns the status of the response. */
  forget(region: string): Promise<number>
  /** Sends SIGKILL, and waits for the end of the process. */
  kill(): Promise<void>
  /** Starts it again on the same port. */
  start(): Promise<void>
  stop(): Promise<void>
}

export interface RegionAnswer {
  /** 0 if the gateway does not answer. */
  readonly status: number
  readonly tookMs: number
}

export interface Backend {
  readonly url: string
  stop(): void
}

const ADMIN_TOKEN = 'a-token-for-tests-of-lost-regions-0123'

export async function startBackend(host = LOOPBACK): Promise<Backend> {
  const server = createServer((_, response) => response.end())
  server.listen(0, host)
  await once(server, 'listening')
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    stop() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** `limits` are charged by the path `/NAME` and the header field `x-key`. */
export async function startRegionGateway(
  world: RegionWorld,
  region: RegionName,
  backend: Backend,
  limits: readonly { readonly name: string }[],
): Promise<RegionGateway> {
  const [port, adminPort] = [await freePort(), await freePort()]
  const { host, prefix } = world.place(region)
  const policy = {
    ...world.sections(region),
    gateway: { listen: { host, port } },
    admin: {
      listen: { host, port: adminPort },
      // Tokens are for loopback addresses; without one, there is no `forget`.
      ...(host === LOOPBACK ? { token: { env: 'ADMIN_TOKEN' } } : undefined),
    },
    upstreams: { backend: { targets: [backend.url] } },
    limits: limits.map((limit) => ({
      key: { header: 'x-key' },
      otherwise: 'skip',
      match: { path: `/${limit.name}` },
      ...limit,
    })),
  }
  const file = join(world.folder, `${region}.yaml`)
  writeFileSync(file, JSON.stringify(policy))
  const admin = `http://${host}:${adminPort}`
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const start = () => spawned(file, prefix, `http://${host}:${port}`)
  let child = await start()
  return {
    region,
    adminPort,
    ask: (name, key) => send({ agent, host, port, path: `/${name}` }, key),
    metrics: async () => (await fetch(`${admin}/metrics`)).text(),
    async isConnected() {
      const status = (await (await fetch(`${admin}/status`)).json()) as {
        regions: { peers: readonly { up: boolean }[] }
      }
      return status.regions.peers.every(({ up }) => up)
    },
    async forget(lost) {
      const response = await fetch(`${admin}/v1/regions/forgotten`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
        body: JSON.stringify({ region: lost, why: 'a test' }),
      })
      return response.status
    },
    async kill() {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
    async start() {
      child = await start()
    },
    async stop() {
      agent.destroy()
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    },
  }
}

async function spawned(
  file: string,
  prefix: readonly string[],
  url: string,
): Promise<ChildProcess> {
  const program = [process.execPath, '--disable-warning=ExperimentalWarning', programFile]
  const [command = '', ...args] = [...prefix, ...program, 'gateway', '--config', file]
  const env = { ...process.env, ADMIN_TOKEN }
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part: Buffer) => {
      if (output.length < 65_536) output += part.toString()
    })
  }
  await until('the gateway is ready', async () => {
    if (child.exitCode !== null) throw new Error(`the gateway ended: ${output}`)
    return (await fetch(`${url}/ready`)).ok
  })
  return child
}

function send(to: RequestOptions, key: string): Promise<RegionAnswer> {
  const sentMs = performance.now()
  return new Promise((resolve) => {
    const answer = (status: number) => resolve({ status, tookMs: performance.now() - sentMs })
    const sent = request({ ...to, headers: { 'x-key': key } })
    sent.once('error', () => answer(0))
    sent.once('response', (response) => {
      response.resume()
      response.once('end', () => answer(response.statusCode ?? 0))
      response.once('error', () => answer(0))
    })
    sent.end()
  })
}
