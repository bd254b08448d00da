/**
 * A gateway process with Redis and a fast backend, and processes that overload it. The gateway has
 * a core of its own if there is one to spare; all other processes share the rest.
 */

import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { coresOf } from '../../bench/harness/cores.ts'
import type { OverloadStatus } from '../../packages/server/src/overload/overload.ts'
import { repositoryRoot } from '../house/source-file.ts'
import { programFile } from '../support/program.ts'
import { freePort, LOOPBACK } from '../support/servers/ports.ts'
import { startRedis } from '../support/servers/redis.ts'
import { makeFolder, removeFolder } from '../support/servers/server-process.ts'
import { until } from '../support/servers/until.ts'
import type { LoadPlan, LoadReport } from './load-client.ts'

export interface OverloadedGateway {
  readonly url: string
  readonly admin: string
  status(): Promise<OverloadStatus>
  /** Resident memory in megabytes. */
  rssMb(): number
  /** Sends all plans at once, each from a process of its own. */
  load(plans: readonly Plan[]): Promise<LoadReport[]>
}

export interface Plan extends Omit<LoadPlan, 'port'> {
  /** True if its process runs with low priority. */
  readonly isBackground?: boolean
  /** Default: `gateway`. The others have prepared responses. */
  readonly to?: Destination
}

/** The bare server has only `node:net`, and runs on the core of the gateway. */
export type Destination = 'gateway' | 'backend' | 'bareServer'

const BACKGROUND = ['nice', '-n', '15']

/** Node with the flags that every child has. */
const NODE = [process.execPath, '--disable-warning=ExperimentalWarning']

export interface OverloadPlan {
  readonly overload: object
  /** The limit of sheddable requests per day. */
  readonly granted: number
  readonly limits?: readonly object[]
}

/** Stopped when the test ends. `/critical` and `/sheddable` have these priorities. */
export async function startOverloadedGateway(plan: OverloadPlan): Promise<OverloadedGateway> {
  const { ofGateway, ofOthers } = places()
  const children: ChildProcess[] = []
  const folder = makeFolder()
  const redis = await startRedis()
  pin(redis.pid, ofOthers)
  onTestFinished(async () => {
    for (const child of children) child.kill('SIGKILL')
    await redis.stop()
    removeFolder(folder)
  })
  const start: Start = (program, args, prefix = ofOthers) => {
    const [execPath = '', ...execArgv] = [...prefix, ...NODE]
    const path = join(repositoryRoot, program)
    const child = fork(path, args, { execPath, execArgv, serialization: 'advanced' })
    children.push(child)
    return child
  }
  const startClient: StartClient = (plan, isBackground) =>
    start(
      'test/overload/load-client.ts',
      [JSON.stringify(plan)],
      isBackground ? [...BACKGROUND, ...ofOthers] : ofOthers,
    )
  const backendProgram = 'bench/parts/load/quick-backend.ts'
  const [backend] = (await once(start(backendProgram, []), 'message')) as [number]
  const [bareServer] = (await once(start(backendProgram, [], ofGateway), 'message')) as [number]
  const [port, adminPort] = [await freePort(), await freePort()]
  const { overload } = plan
  const document = {
    store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] },
    // All load comes from one address, and the upstream must not be the bottleneck.
    upstreams: { backend: { targets: [`http://${LOOPBACK}:${backend}`], clientShareMax: 1 } },
    admin: { listen: { host: LOOPBACK, port: adminPort } },
    gateway: { listen: { host: LOOPBACK, port }, connectionsPerIpMax: 10_000, overload },
    ...prioritiesOf(plan),
  }
  const file = join(folder, 'policy.yaml')
  writeFileSync(file, JSON.stringify(document))
  const program = programFile
  const [command = '', ...args] = [...ofGateway, ...NODE, program, 'gateway', '--config', file]
  const gateway = spawn(command, args, { stdio: 'ignore' })
  children.push(gateway)
  const admin = `http://${LOOPBACK}:${adminPort}`
  await until('the gateway is ready', async () => (await fetch(`${admin}/ready`)).ok)
  return {
    url: `http://${LOOPBACK}:${port}`,
    admin,
    status: async () => ((await (await fetch(`${admin}/status`)).json()) as Status).overload,
    rssMb: () => rssMbOf(gateway.pid ?? 0),
    load: (plans) => {
      const ports = { gateway: port, backend, bareServer }
      return Promise.all(sendAll(plans, ports, startClient))
    },
  }
}

function prioritiesOf({ granted, limits = [] }: OverloadPlan): object {
  return {
    routes: [
      { match: { path: '/critical' }, upstream: 'backend', priority: 'critical' },
      { match: { path: '/sheddable' }, upstream: 'backend', priority: 'sheddable' },
      { upstream: 'backend' },
    ],
    limits: [
      {
        name: 'granted',
        match: { path: '/sheddable' },
        key: 'everyone',
        algorithm: 'fixedWindow',
        limit: granted,
        per: '1d',
        onStoreError: 'closed',
      },
      ...limits,
    ],
    log: { level: 'info', sampleAllowed: 1 },
  }
}

/** The prefix is the beginning of the command. */
type Start = (program: string, args: readonly string[], prefix?: readonly string[]) => ChildProcess
type StartClient = (plan: LoadPlan, isBackground: boolean) => ChildProcess

interface Status {
  readonly overload: OverloadStatus
}

/** Starts all load processes together, once their connections are open. */
function sendAll(
  plans: readonly Plan[],
  ports: Readonly<Record<Destination, number>>,
  start: StartClient,
): Promise<LoadReport>[] {
  const clients = plans.map(({ isBackground = false, to = 'gateway', ...plan }) =>
    start({ ...plan, port: ports[to] }, isBackground),
  )
  const ready = Promise.all(clients.map((client) => message(client)))
  return clients.map(async (client) => {
    await ready
    client.send('go')
    return (await message(client)) as LoadReport
  })
}

async function message(child: ChildProcess): Promise<unknown> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the client ended with ${code}`)
  })
  ended.catch(() => undefined)
  const [first] = (await Promise.race([once(child, 'message'), ended])) as [unknown]
  return first
}

/** Prefixes of commands; empty if there is only one core or no `taskset`. */
function places(): { readonly ofGateway: string[]; readonly ofOthers: string[] } {
  const { stdout } = spawnSync('taskset', ['-c', '-p', String(process.pid)], { encoding: 'utf8' })
  const [own, ...others] = coresOf(/list: ([\d,-]+)/.exec(stdout ?? '')?.[1] ?? '')
  if (own === undefined || others.length === 0) return { ofGateway: [], ofOthers: [] }
  return {
    ofGateway: ['taskset', '-c', String(own)],
    ofOthers: ['taskset', '-c', others.join(',')],
  }
}

/** Moves a running process to the cores of a prefix. */
function pin(pid: number, [taskset, option, cores]: readonly string[]): void {
  if (taskset === undefined || option === undefined || cores === undefined) return
  spawnSync(taskset, ['-a', '-p', option, cores, String(pid)])
}

function rssMbOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024
}

/** A quantile of sorted values. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
