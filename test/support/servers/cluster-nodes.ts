/** Operations on the nodes of a Redis Cluster: forming it, and moving slots. */

import { Redis } from 'ioredis'
import { until } from './until.ts'

export interface ClusterNode {
  readonly id: string
  readonly host: string
  readonly port: number
  command(name: string, ...args: readonly (string | number)[]): Promise<unknown>
}

export interface SlotMove {
  readonly from: ClusterNode
  readonly to: ClusterNode
  /**
   * Called for each batch of slots, when one key of each has been moved and the others have not.
   */
  midway?(): Promise<void>
}

export const SLOT_COUNT = 16_384

/** Enough slots in migration that requests hit them, and the whole takes seconds. */
const SLOTS_AT_ONCE = 50

/** Longer than the shortest node timeout of the tests, which is the longest a handshake takes. */
const MEET_AGAIN_MS = 3_000

/** Keys of one slot per MIGRATE; further keys follow in the next one. */
const KEYS_AT_ONCE = 100

const MIGRATE_TIMEOUT_MS = 5000

/** Gives each master an equal part of the slots, and the replicas to the masters in turn. */
export async function formCluster(
  masters: readonly ClusterNode[],
  replicas: readonly ClusterNode[],
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
  await Promise.all(nodes.map((node) => until('nodes know all slots', () => knowsSlots(node))))
}

/** Without the requirement of full coverage, a node is ok before it knows the other owners. */
async function knowsSlots(node: ClusterNode): Promise<boolean> {
  const info = String(await node.command('CLUSTER', 'INFO'))
  return info.includes(`cluster_slots_ok:${SLOT_COUNT}`)
}

/** Waits until every node that answers reports that the cluster is ok. */
export async function untilOk(nodes: readonly ClusterNode[]): Promise<void> {
  const isOk = async (node: ClusterNode) =>
    String(await node.command('CLUSTER', 'INFO')).includes('cluster_state:ok')
  await until('every node says that the cluster is ok', async () => {
    const running = await Promise.allSettled(nodes.map(isOk))
    const answers = running.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
    return answers.length > 0 && answers.every(Boolean)
  })
}

/** Moves slots and their keys. All masters of the cluster are told the new owner. */
export async function moveSlots(
  slots: readonly number[],
  move: SlotMove,
  masters: readonly ClusterNode[],
): Promise<void> {
  const links = new Map(masters.map(({ id, host, port }) => [id, linkTo(host, port)]))
  try {
    for (let at = 0; at < slots.length; at += SLOTS_AT_ONCE) {
      await moveSome(slots.slice(at, at + SLOTS_AT_ONCE), move, links)
    }
  } finally {
    for (const link of links.values()) link.disconnect()
  }
}

/**
 * Each node meets all nodes before it, because gossip would take seconds longer. A handshake that
 * is not answered in time, as on a stalled machine, is repeated.
 */
export async function meet(nodes: readonly ClusterNode[]): Promise<void> {
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

async function knows(node: ClusterNode, all: readonly ClusterNode[]): Promise<boolean> {
  const known = String(await node.command('CLUSTER', 'NODES'))
  return !known.includes('handshake') && all.every(({ id }) => known.includes(id))
}

async function isLinked(replica: ClusterNode): Promise<boolean> {
  return String(await replica.command('INFO', 'replication')).includes('master_link_status:up')
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
  // The new owner first: until it knows, it would redirect clients back.
  for (const link of [target, source, ...links.values()]) {
    await Promise.all(slots.map((slot) => link.cluster('SETSLOT', slot, 'NODE', to.id)))
  }
}
