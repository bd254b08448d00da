/** A real Redis Cluster for tests and measurements, all of its nodes on the loopback address. */

import {
  type ClusterNode,
  formCluster,
  moveSlots,
  type SlotMove,
  untilOk,
} from './cluster-nodes.ts'
import { type Place, placeOf } from './place.ts'
import { quick, type RedisServer, startServer } from './redis.ts'
import { type RedisFlavor, redisBinary } from './redis-binary.ts'
import { makeFolder } from './server-process.ts'

export interface RedisClusterOptions {
  readonly flavor?: RedisFlavor
  /** At least 3 for a failover, which needs a majority of masters. */
  readonly masters?: number
  readonly replicasPerMaster?: number
  /**
   * The time after which a silent node is considered down. Default: so long that a stall of the
   * machine is not a failover.
   */
  readonly nodeTimeoutMs?: number
  readonly args?: readonly string[]
  /** Places of the nodes, in turn, the masters first. Default: the loopback address. */
  readonly places?: readonly Place[]
}

const NODE_TIMEOUT_MS = 5_000

export type RedisClusterNode = RedisServer & ClusterNode

export interface RedisCluster {
  /** First the masters as they were at the start, then their replicas. */
  readonly nodes: readonly RedisClusterNode[]
  readonly masters: readonly RedisClusterNode[]
  /** Replica r of master m is at `r * masters + m`. */
  readonly replicas: readonly RedisClusterNode[]
  /** The first nodes for clients. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  /** The current master of the key's slot, which a failover or a migration changes. */
  masterOf(key: string): Promise<RedisClusterNode>
  slotOf(key: string): Promise<number>
  /** The running nodes that are masters now. */
  currentMasters(): Promise<RedisClusterNode[]>
  /** Moves slots and their keys like `redis-cli --cluster reshard`, `SLOTS_AT_ONCE` at a time. */
  moveSlots(slots: readonly number[], move: SlotMove): Promise<void>
  /** Waits until every running node reports that the cluster is ok. */
  untilOk(): Promise<void>
  stop(): Promise<void>
}

export async function startCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const {
    masters: masterCount = 3,
    replicasPerMaster = 1,
    nodeTimeoutMs = NODE_TIMEOUT_MS,
  } = options
  const nodes: RedisClusterNode[] = await startNodes(
    masterCount * (1 + replicasPerMaster),
    nodeTimeoutMs,
    options,
  )
  const masters = nodes.slice(0, masterCount)
  const replicas = nodes.slice(masterCount)
  const cluster: RedisCluster = {
    nodes,
    masters,
    replicas,
    addresses: nodes.map(({ host, port }) => ({ host, port })),
    slotOf: async (key) => Number(await askAny(nodes, 'KEYSLOT', key)),
    async masterOf(key) {
      const slot = await cluster.slotOf(key)
      const id = ownerOf(slot, await askAny(nodes, 'SLOTS'))
      const owner = nodes.find((node) => node.id === id)
      if (owner === undefined) throw new Error(`no node has the slot ${slot} of ${key}`)
      return owner
    },
    currentMasters: () => currentMasters(nodes),
    moveSlots: async (slots, move) => moveSlots(slots, move, await currentMasters(nodes)),
    untilOk: () => untilOk(nodes),
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  }
  try {
    await formCluster(masters, replicas)
  } catch (error) {
    await cluster.stop()
    throw error
  }
  return cluster
}

async function startNodes(
  count: number,
  nodeTimeoutMs: number,
  { flavor, args = [], places }: RedisClusterOptions,
): Promise<RedisClusterNode[]> {
  const clustered = ['cluster-enabled yes', `cluster-node-timeout ${nodeTimeoutMs}`]
  const start = async (index: number) => {
    const place = placeOf(places, index)
    // A node learns its address from the others, and a single one has none to tell its clients.
    const announced = `cluster-announce-ip ${place.host}`
    const config = (port: number) => [...quick, ...clustered, announced, `port ${port}`]
    const binary = redisBinary(flavor)
    const server = await startServer({ binary, folder: makeFolder(), config, args, place })
    return Object.assign(server, { id: String(await server.command('CLUSTER', 'MYID')) })
  }
  return Promise.all(Array.from({ length: count }, (_, index) => start(index)))
}

/** Asks the nodes in turn, because some may be down. */
async function askAny(
  nodes: readonly RedisServer[],
  subcommand: string,
  ...args: readonly string[]
): Promise<unknown> {
  let cause: unknown
  for (const node of nodes) {
    try {
      return await node.command('CLUSTER', subcommand, ...args)
    } catch (error) {
      cause = error
    }
  }
  throw new Error('no node of the cluster answers', { cause })
}

async function currentMasters(nodes: readonly RedisClusterNode[]): Promise<RedisClusterNode[]> {
  const isMaster = async (node: RedisClusterNode) => {
    const role = await node.command('ROLE').catch(() => undefined)
    return Array.isArray(role) && role[0] === 'master' ? [node] : []
  }
  return (await Promise.all(nodes.map(isMaster))).flat()
}

/** The id of the master in a reply of CLUSTER SLOTS: `[first, last, [host, port, id], …]`. */
function ownerOf(slot: number, ranges: unknown): unknown {
  if (!Array.isArray(ranges)) return undefined
  const range = ranges.find(([first, last]) => first <= slot && slot <= last)
  return range?.[2]?.[2]
}
