/**
 * A gateway process with Redis and a quick backend, and processes that send it more than it can
 * serve. The gateway has a core to itself if there is one to spare; everything else shares the
 * others.
 */

import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { coresOf } from '../../bench/harness/cores.ts'
import type { OverloadStatus } from '../../packages/server/src/overload/overload.ts'
import { freePort, LOOPBACK } from '../servers/ports.ts'
import { startRedis } from '../servers/redis.ts'
import { makeFolder, removeFolder } from '../servers/server-process.ts'
import { until } from '../servers/until.ts'
import { repositoryRoot } from '../source-file.ts'
import type { LoadPlan, LoadReport } from './load-client.ts'

export interface OverloadedGateway {
  readonly url: string
  readonly admin: string
  status(): Promise<OverloadStatus>
  /** Resident memory in megabytes. */
  rssMb(): number
  /** Sends all plans at once, each from a process of its own. */
  load(plans: readonly Plan[]): Promise<LoadReport[]>
  stop(): Promise<void>
}

export interface Plan extends Omit<LoadPlan, 'port'> {
  /** Whether its process leaves the processor to the others, so that it does not disturb them. */
  readonly isBackground?: boolean
}

const BACKGROUND = ['nice', '-n', '15']

/** Node with the flags that every child has. */
const NODE = [process.execPath, '--disable-warning=ExperimentalWarning']

/** `policy` has everything but where to listen, the store and the upstream `backend`. */
export async function startOverloadedGateway(policy: {
  readonly gateway: object
  readonly [section: string]: unknown
}): Promise<OverloadedGateway> {
  const { ofGateway, ofOthers } = places()
  const children: ChildProcess[] = []
  const folder = makeFolder()
  const redis = await startRedis()
  const stop = async () => {
    for (const child of children) child.kill('SIGKILL')
    await redis.stop()
    removeFolder(folder)
  }
  const start: Start = (program, args, isBackground = false) => {
    const [execPath = '', ...execArgv] = [...(isBackground ? BACKGROUND : []), ...ofOthers, ...NODE]
    const path = join(repositoryRoot, program)
    const child = fork(path, args, { execPath, execArgv, serialization: 'advanced' })
    children.push(child)
    return child
  }
  try {
    const [backend] = (await once(start('bench/parts/quick-backend.ts', []), 'message')) as [number]
    const [port, adminPort] = [await freePort(), await freePort()]
    const document = {
      store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] },
      // All load comes from one address, and the upstream is not what is too slow.
      upstreams: { backend: { targets: [`http://${LOOPBACK}:${backend}`], clientShareMax: 1 } },
      admin: { listen: { host: LOOPBACK, port: adminPort } },
      ...policy,
      gateway: { listen: { host: LOOPBACK, port }, connectionsPerIpMax: 10_000, ...policy.gateway },
    }
    const file = join(folder, 'policy.yaml')
    writeFileSync(file, JSON.stringify(document))
    const program = join(repositoryRoot, 'packages/server/src/main.ts')
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
      load: (plans) => Promise.all(sendAll(plans, port, start)),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

type Start = (program: string, args: readonly string[], isBackground?: boolean) => ChildProcess

interface Status {
  readonly overload: OverloadStatus
}

/** They begin together, once all of them have their connections. */
function sendAll(plans: readonly Plan[], port: number, start: Start): Promise<LoadReport>[] {
  const clients = plans.map(({ isBackground, ...plan }) =>
    start('test/overload/load-client.ts', [JSON.stringify({ ...plan, port })], isBackground),
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

/** What commands begin with; empty where there is one core or no `taskset`. */
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

/** Of values in rising order. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
