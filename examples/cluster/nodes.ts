/**
 * A Redis Cluster of real processes on this machine, for trying things out: three masters and three
 * replicas on the ports from 7000. What it writes is under `.cache/cluster`, and only processes
 * that it started itself are ever stopped. `CLUSTER_PORT` is another first port.
 */

import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

export const HOST = '127.0.0.1'
const NODES = 6

/** Nodes talk to one another on a port that is higher by this, and more of them may be added. */
const BUS_OFFSET = 10_000
const PORT_FIRST_MAX = 65_535 - BUS_OFFSET - 100

/** A node is thought to be down after this; then its replica is promoted within a second. */
const NODE_TIMEOUT_MS = 2_000

const WAIT_MS_MAX = 30_000

export interface NodeState {
  readonly id: string
  readonly port: number
  readonly role: 'master' | 'replica'
  readonly masterId: string
  readonly isDown: boolean
  /** Ranges, such as `0-5460`. */
  readonly slots: readonly string[]
  readonly slotCount: number
}

/** A mistake or a state that people can mend; shown without a trace. */
export class ClusterError extends Error {}

export function firstPort(): number {
  const text = process.env.CLUSTER_PORT || '7000'
  const port = Number(text)
  if (Number.isSafeInteger(port) && port >= 1 && port <= PORT_FIRST_MAX) return port
  const allowed = `a port from 1 to ${PORT_FIRST_MAX}`
  throw new ClusterError(`CLUSTER_PORT=${JSON.stringify(text)} is not allowed; allowed: ${allowed}`)
}

export function clusterPorts(): number[] {
  return Array.from({ length: NODES }, (_, at) => firstPort() + at)
}

/** The ports of nodes that were started here, whether they run or not. */
export function knownPorts(): number[] {
  const folder = clusterFolder()
  if (!existsSync(folder)) return []
  const ports = readdirSync(folder).map(Number)
  return ports.filter((port) => Number.isSafeInteger(port)).sort((one, other) => one - other)
}

/** The ports of nodes that were started here and run. */
export function runningPorts(): number[] {
  return knownPorts().filter((port) => pidOf(port) !== undefined)
}

/** Before the first is started, so that a port that is taken leaves none of them behind. */
export async function refuseTaken(ports: readonly number[]): Promise<void> {
  for (const port of ports.flatMap((one) => [one, one + BUS_OFFSET])) {
    if (!(await isListening(port))) continue
    const advice = 'stop what listens there, or set CLUSTER_PORT to another first port'
    throw new ClusterError(`port ${port} is in use; ${advice}`)
  }
}

export async function startNode(port: number): Promise<void> {
  await refuseTaken([port])
  const place = join(clusterFolder(), String(port))
  mkdirSync(place, { recursive: true })
  const options = {
    port,
    bind: HOST,
    dir: place,
    pidfile: join(place, 'redis.pid'),
    logfile: join(place, 'redis.log'),
    daemonize: 'yes',
    save: '',
    appendonly: 'no',
    'cluster-enabled': 'yes',
    'cluster-config-file': 'nodes.conf',
    'cluster-node-timeout': NODE_TIMEOUT_MS,
    // Slots that still have an owner are answered, whatever becomes of the others.
    'cluster-require-full-coverage': 'no',
    // A replica that was never in sync is not promoted, and by default a master waits 5 s for more
    // replicas before it sends them anything.
    'repl-diskless-sync-delay': 0,
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const started = spawnSync('redis-server', args, { encoding: 'utf8' })
  if (started.status !== 0) {
    throw new ClusterError(`redis-server did not start: ${started.error ?? started.stdout}`)
  }
  await until(`the node on port ${port} answers`, () => isListening(port))
}

/** Ends a node that was started here, and forgets its data if asked to. */
export async function stopNode(
  port: number,
  signal: 'SIGTERM' | 'SIGKILL',
  isForgotten: boolean,
): Promise<void> {
  const pid = pidOf(port)
  if (pid !== undefined) {
    process.kill(pid, signal)
    // Not by its file, which it removes before it has written its last words.
    await until(`process ${pid} has ended`, async () => !isNode(pid, port))
  }
  if (isForgotten) rmSync(join(clusterFolder(), String(port)), { recursive: true, force: true })
}

/** When all nodes have been stopped and forgotten. */
export function removeFolder(): void {
  rmSync(clusterFolder(), { recursive: true, force: true })
}

export async function redisCli(port: number, ...args: readonly string[]): Promise<string> {
  const { stdout } = await run('redis-cli', ['-h', HOST, '-p', String(port), ...args])
  return stdout.trim()
}

export async function clusterCommand(...args: readonly string[]): Promise<string> {
  try {
    return (await run('redis-cli', ['--cluster', ...args], { maxBuffer: 1e8 })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new ClusterError(`redis-cli --cluster ${args[0]} failed:\n${stdout}${stderr}`)
  }
}

/** The nodes as one that runs sees them. */
export async function nodeStates(): Promise<NodeState[]> {
  for (const port of runningPorts()) {
    try {
      const text = await redisCli(port, 'cluster', 'nodes')
      return text
        .split('\n')
        .map(stateOf)
        .sort((one, other) => one.port - other.port)
    } catch {
      // Another one may answer.
    }
  }
  throw new ClusterError('no node of the cluster runs; start it with: ./run.sh cluster-start')
}

export async function untilWhole(): Promise<void> {
  await until('the cluster is whole', async () => {
    const answers = await Promise.all(
      runningPorts().map((port) => redisCli(port, 'cluster', 'info')),
    )
    return answers.every((text) => text.includes('cluster_state:ok'))
  })
}

/** Every master has a replica that has what it has: only such a one can take its place. */
export async function untilReplicated(): Promise<void> {
  await until('every master has a replica in sync', async () => {
    const states = await nodeStates()
    const replicas = states.filter(({ role, isDown }) => role === 'replica' && !isDown)
    const answers = await Promise.all(
      replicas.map(({ port }) => redisCli(port, 'info', 'replication')),
    )
    const inSync = replicas.filter((_, at) => answers[at]?.includes('master_link_status:up'))
    const masters = states.filter(({ role, slotCount }) => role === 'master' && slotCount > 0)
    return masters.every(({ id }) => inSync.some(({ masterId }) => masterId === id))
  })
}

export async function until(what: string, ask: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + WAIT_MS_MAX
  while (!(await ask())) {
    if (Date.now() > end)
      throw new ClusterError(`waited ${WAIT_MS_MAX / 1000} s in vain until ${what}`)
    await sleep(50)
  }
}

/** Of the cluster with that first port: another one is not touched. */
function clusterFolder(): string {
  return join(import.meta.dirname, '../../.cache/cluster', String(firstPort()))
}

/** https://redis.io/docs/latest/commands/cluster-nodes/ */
function stateOf(line: string): NodeState {
  const [id = '', address = '', flags = '', masterId = '', , , , link = '', ...slots] =
    line.split(' ')
  const ranges = slots.filter((range) => !range.startsWith('['))
  return {
    id,
    port: Number(/:(\d+)@/.exec(address)?.[1]),
    role: flags.includes('master') ? 'master' : 'replica',
    masterId,
    isDown: /\bfail\b/.test(flags.replaceAll('fail?', '')) || link === 'disconnected',
    slots: ranges,
    slotCount: ranges.reduce((sum, range) => sum + sizeOf(range), 0),
  }
}

function sizeOf(range: string): number {
  const [first, last] = range.split('-').map(Number)
  return (last ?? first ?? 0) - (first ?? 0) + 1
}

/** Of the process that was started for that port, if it still is that process. */
function pidOf(port: number): number | undefined {
  try {
    const pid = Number(readFileSync(join(clusterFolder(), String(port), 'redis.pid'), 'utf8'))
    return isNode(pid, port) ? pid : undefined
  } catch {
    return undefined
  }
}

function isNode(pid: number, port: number): boolean {
  try {
    const commandLine = commandLineOf(pid)
    return commandLine.includes('redis-server') && commandLine.includes(`:${port}`)
  } catch {
    return false
  }
}

/** Where there is no /proc, `ps` tells; it takes longer. */
function commandLineOf(pid: number): string {
  if (existsSync('/proc/self')) return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  return spawnSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).stdout
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, HOST)
    const settle = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => settle(true))
    socket.once('error', () => settle(false))
  })
}
