/**
 * `./run.sh cluster-start`, `-stop`, `-status`, `-demo` and `-add-shard`: a Redis Cluster on this
 * machine, a failover under traffic, and live resharding.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import {
  formCluster,
  meet,
  moveSlots,
  SLOT_COUNT,
} from '../../test/support/servers/cluster-nodes.ts'
import { until } from '../../test/support/servers/until.ts'
import {
  ClusterError,
  clusterNodes,
  clusterPorts,
  knownPorts,
  MASTERS,
  type NodeState,
  nodeCommand,
  nodeStates,
  refuseTaken,
  removeFolder,
  runningPorts,
  startNode,
  stopNode,
  untilWhole,
} from './nodes.ts'
import { startTraffic, type Traffic } from './traffic.ts'

const commands: Readonly<Record<string, () => Promise<void>>> = {
  start,
  stop,
  status,
  demo,
  'add-shard': addShard,
}

const command = commands[process.argv[2] ?? '']
try {
  if (command === undefined) throw new ClusterError(`one of: ${Object.keys(commands).join(', ')}`)
  await command()
} catch (error) {
  if (!(error instanceof ClusterError)) throw error
  console.error(`cluster: ${error.message}`)
  process.exitCode = 1
}

async function start(): Promise<void> {
  if (runningPorts().length > 0) return startMissing()
  await stopAll()
  const ports = clusterPorts()
  await refuseTaken(ports)
  try {
    for (const port of ports) await startNode(port)
    const nodes = await clusterNodes(ports)
    await formCluster(nodes.slice(0, MASTERS), nodes.slice(MASTERS))
  } catch (error) {
    await stopAll()
    throw error
  }
  console.log('Three masters and three replicas run:\n')
  await status()
  const [first] = ports
  const addresses = first === 7000 ? '' : ` REDIS_ADDRS=localhost:${first}`
  console.log(`\nTry: REDIS_MODE=cluster${addresses} ./run.sh demo`)
}

/** Killed nodes keep their cluster configuration on disk, and rejoin with it. */
async function startMissing(): Promise<void> {
  const running = runningPorts()
  const missing = knownPorts().filter((port) => !running.includes(port))
  for (const port of missing) await startNode(port)
  if (missing.length > 0) {
    await untilWhole()
    console.log(`Started again: ${missing.join(', ')}.`)
  }
  console.log(`The cluster runs already, on the ports ${running.join(', ')}.`)
}

async function stop(): Promise<void> {
  const running = runningPorts()
  await stopAll()
  const text = running.length === 0 ? 'No cluster runs.' : `Stopped ${running.length} nodes.`
  console.log(text)
}

/** Removes their files too: a node that knows an old cluster cannot join a new one. */
async function stopAll(): Promise<void> {
  for (const port of knownPorts()) await stopNode(port, 'SIGTERM', true)
  removeFolder()
}

async function status(): Promise<void> {
  const states = await nodeStates()
  const portOf = new Map(states.map(({ id, port }) => [id, port]))
  console.log('port   role     state  of     keys    slots')
  for (const state of states) {
    const keys = state.isDown ? '-' : await nodeCommand(state.port, 'DBSIZE').catch(() => '-')
    const columns = [
      String(state.port).padEnd(6),
      state.role.padEnd(8),
      (state.isDown ? 'down' : 'up').padEnd(6),
      String(portOf.get(state.masterId) ?? '-').padEnd(6),
      String(keys).padEnd(7),
      state.slots.join(' ') || '-',
    ]
    console.log(columns.join(' '))
  }
}

async function demo(): Promise<void> {
  await startOrRefuse()
  const victim = masters(await nodeStates()).find(({ slotCount }) => slotCount > 0)
  if (victim === undefined) throw new ClusterError('no master has slots')
  console.log('\nA gateway with clients on all shards; one of the masters is killed after 2 s.')
  console.log('second  admitted  refused  degraded  failed  slowest')
  const traffic = await startTraffic()
  const startedAt = Date.now()
  try {
    await report(traffic, startedAt, 2_000)
    await stopNode(victim.port, 'SIGKILL', false)
    console.log(
      `        master on port ${victim.port} killed, ${victim.slotCount} slots without owner`,
    )
    const killedAt = Date.now()
    const promoted = untilPromoted(victim).then((port) => {
      const tookMs = Date.now() - killedAt
      console.log(`        replica on port ${port} promoted, ${(tookMs / 1000).toFixed(1)} s after`)
    })
    await Promise.all([report(traffic, startedAt, 8_000), promoted])
    await startNode(victim.port)
    console.log(`        port ${victim.port} started again, as a replica`)
    await report(traffic, startedAt, 2_000)
  } finally {
    await traffic.stop()
  }
  await untilWhole()
  console.log('\nDegraded: decided without Redis as the limit declares, and marked for the client.')
}

/** Refuses a cluster with missing nodes: its failover would not be the one that the demo shows. */
async function startOrRefuse(): Promise<void> {
  const running = runningPorts()
  if (running.length === 0) return start()
  const missing = knownPorts().filter((port) => !running.includes(port))
  if (missing.length > 0) {
    const advice = './run.sh cluster-start starts it again'
    throw new ClusterError(`nothing runs on port ${missing.join(', ')}; ${advice}`)
  }
  await untilWhole()
}

async function untilPromoted(victim: NodeState): Promise<number> {
  let port = 0
  await until('a replica is promoted', async () => {
    const states = await nodeStates()
    const owner = states.find(({ role, slots, isDown, id }) => {
      return role === 'master' && !isDown && id !== victim.id && slots[0] === victim.slots[0]
    })
    port = owner?.port ?? 0
    return owner !== undefined
  })
  return port
}

/** Prints one line per second. */
async function report(traffic: Traffic, startedAt: number, durationMs: number): Promise<void> {
  const end = Date.now() + durationMs
  while (Date.now() < end) {
    await sleep(1000)
    const { admitted, refused, degraded, failed, slowestMs } = traffic.take()
    const second = Math.round((Date.now() - startedAt) / 1000)
    const numbers = [admitted, refused, degraded, failed].map((n, at) =>
      String(n).padStart([8, 7, 8, 6][at] ?? 8),
    )
    const slowest = `${Math.round(slowestMs)} ms`.padStart(7)
    console.log(`${String(second).padStart(6)}  ${numbers.join('  ')}  ${slowest}`)
  }
}

async function addShard(): Promise<void> {
  await startOrRefuse()
  const ports = runningPorts()
  const added = [Math.max(...ports) + 1, Math.max(...ports) + 2] as const
  await refuseTaken(added)
  console.log(`\nA new master on port ${added[0]} and its replica on ${added[1]}:\n`)
  for (const port of added) await startNode(port)
  await meet(await clusterNodes([...ports, ...added]))
  const masterId = await nodeCommand(added[0], 'CLUSTER', 'MYID')
  await nodeCommand(added[1], 'CLUSTER', 'REPLICATE', String(masterId))
  console.log('second  admitted  refused  degraded  failed  slowest')
  const traffic = await startTraffic()
  try {
    const startedAt = Date.now()
    await report(traffic, startedAt, 1_000)
    console.log('        resharding, so that every master has the same number of slots')
    const moving = rebalance(added[0])
    let isMoving = true
    moving.finally(() => (isMoving = false)).catch(() => undefined)
    while (isMoving) await report(traffic, startedAt, 1_000)
    await moving
    console.log('        done')
    await report(traffic, startedAt, 1_000)
  } finally {
    await traffic.stop()
  }
  await untilWhole()
  console.log('')
  await status()
}

/** Moves an equal number of slots from every other master to the one on this port. */
async function rebalance(port: number): Promise<void> {
  const states = masters(await nodeStates())
  const nodes = await clusterNodes(states.map((state) => state.port))
  const to = nodes.find((node) => node.port === port)
  if (to === undefined) throw new ClusterError(`no master runs on port ${port}`)
  const count = Math.floor(SLOT_COUNT / nodes.length / (nodes.length - 1))
  for (const from of nodes.filter((node) => node !== to)) {
    const slots = slotsOf(states.find(({ id }) => id === from.id)).slice(0, count)
    await moveSlots(slots, { from, to }, nodes)
  }
}

function slotsOf(state: NodeState | undefined): number[] {
  return (state?.slots ?? []).flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, at) => first + at)
  })
}

function masters(states: readonly NodeState[]): NodeState[] {
  return states.filter(({ role, isDown }) => role === 'master' && !isDown)
}
