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
  /** True sends the requests to the backend, past the gateway. */
  readonly isDirect?: boolean
}

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
  onTestFinished(async () => {
    for (const child of children) child.kill('SIGKILL')
    await redis.stop()
    removeFolder(folder)
  })
  const start: Start = (program, args, isBackground = false) => {
    const [execPath = '', ...execArgv] = [...(isBackground ? BACKGROUND : []), ...ofOthers, ...NODE]
    const path = join(repositoryRoot, program)
    const child = fork(path, args, { execPath, execArgv, serialization: 'advanced' })
    children.push(child)
    return child
  }
  const backendProgram = 'bench/parts/load/quick-backend.ts'
  const [backend] = (await once(start(backendProgram, []), 'message')) as [number]
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
    load: (plans) => Promise.all(sendAll(plans, { port, backend }, start)),
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

type Start = (program: string, args: readonly string[], isBackground?: boolean) => ChildProcess

interface Status {
  readonly overload: OverloadStatus
}

/** Starts all load processes together, once their connections are open. */
function sendAll(
  plans: readonly Plan[],
  ports: { readonly port: number; readonly backend: number },
  start: Start,
): Promise<LoadReport>[] {
  const clients = plans.map(({ isBackground, isDirect, ...plan }) => {
    const port = isDirect ? ports.backend : ports.port
    const args = [JSON.stringify({ ...plan, port })]
    return start('test/overload/load-client.ts', args, isBackground)
  })
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

function rssMbOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024
}

/** A quantile of sorted values. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
