/** A real Redis Cluster for tests and measurements, all of its nodes on the loopback address. */

import { Redis } from 'ioredis'
import { type Place, placeOf } from './place.ts'
import { quick, type RedisServer, startServer } from './redis.ts'
import { type RedisFlavor, redisBinary } from './redis-binary.ts'
import { makeFolder } from './server-process.ts'
import { until } from './until.ts'

export interface RedisClusterOptions {
  readonly flavor?: RedisFlavor
  /** At least 3, as failover needs a majority of masters. */
  readonly masters?: number
  readonly replicasPerMaster?: number
  /** After how long a silent node is thought to be down. */
  readonly nodeTimeoutMs?: number
  readonly args?: readonly string[]
  /** Of the nodes, in turn, the masters first. Default: the loopback address. */
  readonly places?: readonly Place[]
}

export interface RedisClusterNode extends RedisServer {
  readonly id: string
}

export interface RedisCluster {
  /** First the masters as they were at the start, then their replicas. */
  readonly nodes: readonly RedisClusterNode[]
  readonly masters: readonly RedisClusterNode[]
  /** The replica number r of master m stands at `r * masters + m`. */
  readonly replicas: readonly RedisClusterNode[]
  /** What clients take as their first nodes. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  /** The master that holds the key's slot now, which a failover or a migration changes. */
  masterOf(key: string): Promise<RedisClusterNode>
  slotOf(key: string): Promise<number>
  /** Those that are masters now, of those that run. */
  currentMasters(): Promise<RedisClusterNode[]>
  /** Moves slots and their keys as `redis-cli --cluster reshard` does, some slots at a time. */
  moveSlots(slots: readonly number[], move: SlotMove): Promise<void>
  /** Until every running node says that the cluster is whole. */
  untilOk(): Promise<void>
  stop(): Promise<void>
}

export interface SlotMove {
  readonly from: RedisClusterNode
  readonly to: RedisClusterNode
  /** Called when of each of some slots one key has been moved, and the others have not. */
  midway?(): Promise<void>
}

const SLOT_COUNT = 16_384

/** So many slots are under way together that requests meet them, and the whole takes seconds. */
const SLOTS_AT_ONCE = 50

/** Longer than the shortest node timeout that tests use, which is as long as a meeting may take. */
const MEET_AGAIN_MS = 3_000

/** Of one slot and step; there is a next step if there are more. */
const KEYS_AT_ONCE = 100

const MIGRATE_TIMEOUT_MS = 5000

export async function startCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const { masters: masterCount = 3, replicasPerMaster = 1, nodeTimeoutMs = 2000 } = options
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
    async moveSlots(slots, move) {
      const masters = await currentMasters(nodes)
      const links = new Map(masters.map(({ id, host, port }) => [id, linkTo(host, port)]))
      try {
        for (let at = 0; at < slots.length; at += SLOTS_AT_ONCE) {
          await moveSome(slots.slice(at, at + SLOTS_AT_ONCE), move, links)
        }
      } finally {
        for (const link of links.values()) link.disconnect()
      }
    },
    untilOk: () => untilOk(nodes),
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  }
  try {
    await join(masters, replicas)
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
    const config = (port: number) => [...quick, ...clustered, `port ${port}`]
    const binary = redisBinary(flavor)
    const place = placeOf(places, index)
    const server = await startServer({ binary, folder: makeFolder(), config, args, place })
    return Object.assign(server, { id: String(await server.command('CLUSTER', 'MYID')) })
  }
  return Promise.all(Array.from({ length: count }, (_, index) => start(index)))
}

async function join(
  masters: readonly RedisClusterNode[],
  replicas: readonly RedisClusterNode[],
): Promise<void> {
  const nodes = [...masters, ...replicas]
  await Promise.all(
    masters.map(async (master, index) => {
      const first = Math.floor((index * SLOT_COUNT) / masters.length)
      const last = Math.floor(((index + 1) * SLOT_COUNT) / masters.length) - 1
      await master.command('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
      await master.command('CLUSTER', 'ADDSLOTSRANGE', first, last)
    }),
  )
  await meet(nodes)
  await Promise.all(
    replicas.map((replica, index) => {
      const master = masters[index % masters.length]
      return replica.command('CLUSTER', 'REPLICATE', master?.id ?? '')
    }),
  )
  await Promise.all(
    replicas.map((replica) => until('replicas are in step', () => isLinked(replica))),
  )
  await untilOk(nodes)
}

/**
 * Each node meets all before it; left to gossip, it would take seconds more. A node gives a meeting
 * up that is not answered in time, as on a machine that stands still for a while; then they meet
 * again.
 */
async function meet(nodes: readonly RedisClusterNode[]): Promise<void> {
  let metMs = Number.NEGATIVE_INFINITY
  await until('nodes know one another', async () => {
    if (Date.now() - metMs > MEET_AGAIN_MS) {
      for (const [index, node] of nodes.entries()) {
        const others = nodes.slice(0, index)
        const meetings = others.map(({ host, port }) => node.command('CLUSTER', 'MEET', host, port))
        await Promise.all(meetings)
      }
      metMs = Date.now()
    }
    return (await Promise.all(nodes.map((node) => knows(node, nodes)))).every(Boolean)
  })
}

async function knows(node: RedisServer, all: readonly RedisClusterNode[]): Promise<boolean> {
  const known = String(await node.command('CLUSTER', 'NODES'))
  return !known.includes('handshake') && all.every(({ id }) => known.includes(id))
}

async function isLinked(replica: RedisServer): Promise<boolean> {
  return String(await replica.command('INFO', 'replication')).includes('master_link_status:up')
}

async function untilOk(nodes: readonly RedisClusterNode[]): Promise<void> {
  const isOk = async (node: RedisServer) =>
    String(await node.command('CLUSTER', 'INFO')).includes('cluster_state:ok')
  await until('every node says that the cluster is ok', async () => {
    const running = await Promise.allSettled(nodes.map(isOk))
    const answers = running.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
    return answers.length > 0 && answers.every(Boolean)
  })
}

/** Asks the nodes in turn, as some may be down. */
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

/** One connection for thousands of commands. */
function linkTo(host: string, port: number): Redis {
  return new Redis({ host, port, protocol: 2, disableClientInfo: true })
}

async function moveSome(
  slots: readonly number[],
  { from, to, midway }: SlotMove,
  links: ReadonlyMap<string, Redis>,
): Promise<void> {
  const [source, target] = [links.get(from.id), links.get(to.id)]
  if (source === undefined || target === undefined) throw new Error('slots move between masters')
  const keysIn = (slot: number, count: number) => source.cluster('GETKEYSINSLOT', slot, count)
  const move = async (keys: readonly unknown[]) => {
    const place = [to.host, to.port, '', 0, MIGRATE_TIMEOUT_MS]
    if (keys.length > 0) await source.call('MIGRATE', ...place, 'KEYS', ...keys.map(String))
  }
  await Promise.all(slots.map((slot) => target.cluster('SETSLOT', slot, 'IMPORTING', from.id)))
  await Promise.all(slots.map((slot) => source.cluster('SETSLOT', slot, 'MIGRATING', to.id)))
  for (const slot of slots) await move(await keysIn(slot, 1))
  await midway?.()
  for (const slot of slots) {
    for (;;) {
      const keys = await keysIn(slot, KEYS_AT_ONCE)
      if (keys.length === 0) break
      await move(keys)
    }
  }
  // The new owner first: until it knows, it would send everybody back.
  for (const link of [target, source, ...links.values()]) {
    await Promise.all(slots.map((slot) => link.cluster('SETSLOT', slot, 'NODE', to.id)))
  }
}

/** The id of the master in a reply of CLUSTER SLOTS: `[first, last, [host, port, id], …]`. */
function ownerOf(slot: number, ranges: unknown): unknown {
  if (!Array.isArray(ranges)) return undefined
  const range = ranges.find(([first, last]) => first <= slot && slot <= last)
  return range?.[2]?.[2]
}
