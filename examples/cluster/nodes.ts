/**
 * A Redis Cluster of real processes on this machine, for experiments: three masters and three
 * replicas on the ports from 7000. Its files are under `.cache/cluster`. It stops only processes
 * that it started itself. `CLUSTER_PORT` sets another first port.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type ClusterNode, untilOk } from '../../test/support/servers/cluster-nodes.ts'
import { BUS_PORT_OFFSET, LOOPBACK } from '../../test/support/servers/ports.ts'
import { command } from '../../test/support/servers/redis.ts'
import { redisBinary } from '../../test/support/servers/redis-binary.ts'
import { until } from '../../test/support/servers/until.ts'

export const MASTERS = 3
const NODES = 2 * MASTERS

/** Leaves room for the ports of further nodes and of their cluster buses. */
const PORT_FIRST_MAX = 65_535 - BUS_PORT_OFFSET - 100

/** A node counts as down after this time; then its replica is promoted within a second. */
const NODE_TIMEOUT_MS = 2_000

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

/** An error that the user can fix; printed without a stack trace. */
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

/** The ports of all nodes that were started here, running or not. */
export function knownPorts(): number[] {
  const folder = clusterFolder()
  if (!existsSync(folder)) return []
  const ports = readdirSync(folder).map(Number)
  return ports.filter((port) => Number.isSafeInteger(port)).sort((one, other) => one - other)
}

/** The ports of the running nodes that were started here. */
export function runningPorts(): number[] {
  return knownPorts().filter((port) => pidOf(port) !== undefined)
}

/** Called before the first node starts, so that a port in use leaves no node behind. */
export async function refuseTaken(ports: readonly number[]): Promise<void> {
  for (const port of ports.flatMap((one) => [one, one + BUS_PORT_OFFSET])) {
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
    bind: LOOPBACK,
    dir: place,
    pidfile: join(place, 'redis.pid'),
    logfile: join(place, 'redis.log'),
    daemonize: 'yes',
    save: '',
    appendonly: 'no',
    'cluster-enabled': 'yes',
    'cluster-config-file': 'nodes.conf',
    'cluster-node-timeout': NODE_TIMEOUT_MS,
    // Slots with an owner are served even if other slots have none.
    'cluster-require-full-coverage': 'no',
    // A replica that was never in sync is not promoted. By default a master waits 5 s for further
    // replicas before it sends the first snapshot.
    'repl-diskless-sync-delay': 0,
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const started = spawnSync(redisBinary(), args, { encoding: 'utf8' })
  if (started.status !== 0) {
    throw new ClusterError(`redis-server did not start: ${started.error ?? started.stdout}`)
  }
  await until(`the node on port ${port} answers`, () => isListening(port))
}

/** Stops a node that was started here, and removes its data if `isForgotten`. */
export async function stopNode(
  port: number,
  signal: 'SIGTERM' | 'SIGKILL',
  isForgotten: boolean,
): Promise<void> {
  const pid = pidOf(port)
  if (pid !== undefined) {
    process.kill(pid, signal)
    // Not by its pid file, which it removes before it has written the end of its log.
    await until(`process ${pid} has ended`, async () => !isNode(pid, port))
  }
  if (isForgotten) rmSync(join(clusterFolder(), String(port)), { recursive: true, force: true })
}

/** Call it after all nodes have been stopped and their data removed. */
export function removeFolder(): void {
  rmSync(clusterFolder(), { recursive: true, force: true })
}

/** Sends a command to the node on this port. */
export function nodeCommand(port: number, name: string, ...args: (string | number)[]) {
  return command({ host: LOOPBACK, port, password: undefined, tls: undefined }, name, ...args)
}

/** The nodes on these ports, all of which must run. */
export function clusterNodes(ports: readonly number[]): Promise<ClusterNode[]> {
  const nodeAt = async (port: number) => ({
    id: String(await nodeCommand(port, 'CLUSTER', 'MYID')),
    host: LOOPBACK,
    port,
    command: (name: string, ...args: readonly (string | number)[]) =>
      nodeCommand(port, name, ...args),
  })
  return Promise.all(ports.map(nodeAt))
}

/** The nodes as the first running node that answers sees them. */
export async function nodeStates(): Promise<NodeState[]> {
  for (const port of runningPorts()) {
    try {
      const text = String(await nodeCommand(port, 'CLUSTER', 'NODES'))
      return text
        .trim()
        .split('\n')
        .map(stateOf)
        .sort((one, other) => one.port - other.port)
    } catch {
      // Another node may answer.
    }
  }
  throw new ClusterError('no node of the cluster runs; start it with: ./run.sh cluster-start')
}

/** Waits until all slots are served and every master has a replica in sync to replace it. */
export async function untilWhole(): Promise<void> {
  await untilOk(await clusterNodes(runningPorts()))
  await until('every master has a replica in sync', async () => {
    const states = await nodeStates()
    const replicas = states.filter(({ role, isDown }) => role === 'replica' && !isDown)
    const answers = await Promise.all(
      replicas.map(({ port }) => nodeCommand(port, 'INFO', 'replication')),
    )
    const inSync = replicas.filter((_, at) => String(answers[at]).includes('master_link_status:up'))
    const masters = states.filter(({ role, slotCount }) => role === 'master' && slotCount > 0)
    return masters.every(({ id }) => inSync.some(({ masterId }) => masterId === id))
  })
}

/** The folder of the cluster with this first port; other clusters have their own. */
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

/** The process that was started for this port; undefined if the pid belongs to another now. */
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

/** Without /proc it runs `ps`, which takes longer. */
function commandLineOf(pid: number): string {
  if (existsSync('/proc/self')) return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  return spawnSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).stdout
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, LOOPBACK)
    const settle = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => settle(true))
    socket.once('error', () => settle(false))
  })
}
