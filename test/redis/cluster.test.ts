/** Operations on a cluster while every client uses it: moving slots, and changing masters. */

import { afterEach, describe, expect, it } from 'vitest'
import { fixedWindow, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { BUCKETS_DEFAULT, bucketTags } from '../../packages/tidegate/src/stores/redis/buckets.ts'
import { slotOf } from '../../packages/tidegate/src/stores/redis/cluster-slot.ts'
import { RedisKeys } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Counter, Store } from '../../packages/tidegate/src/stores/store.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type ConnectedClient, patientClientKinds } from '../support/servers/clients.ts'
import { type RedisClusterNode, startCluster } from '../support/servers/cluster.ts'
import { until } from '../support/servers/until.ts'
import { useServer } from '../support/use-server.ts'
import { kindsOf, remaining, Traffic } from './traffic.ts'

/** More than a test can request, with a period so long that no unit is refilled. */
const LIMIT = 100_000
const bucket = tokenBucket({ limit: LIMIT, per: '365d' })
const window = fixedWindow({ limit: LIMIT, per: '30d' })

const SLOTS_MOVED = 1000

/** Groups of each kind: single counters, and organisations with a user and an address. */
const GROUPS = 30

/** Longer than the time after which Redis gives up a manual failover. */
const FAILOVER_MS = 6_000

const cluster = useServer(() => startCluster({ masters: 3, replicasPerMaster: 1 }))
let connections: ConnectedClient[] = []
let traffic: Traffic[] = []

afterEach(async () => {
  await Promise.all(traffic.map((one) => one.stop()))
  for (const { close } of connections) close()
  traffic = []
  connections = []
})

describe('with every client at once', () => {
  it('decisions are exact and none fails while slots move to another node', async () => {
    const [from, to] = cluster.masters as [RedisClusterNode, RedisClusterNode]
    const { groups, slots } = groupsOn('slots', await firstSlots(from))
    const store = await useIt('slots', groups)
    const before = await statistics()
    let isMet = false
    const midway = async () => {
      if (isMet) return
      isMet = true
      await until('requests meet a slot that moves', async () => {
        const now = await statistics()
        return now.ASK > before.ASK && now.TRYAGAIN > before.TRYAGAIN
      })
    }
    await cluster.moveSlots(slots, { from, to, midway })
    const after = await statistics()
    await Promise.all(traffic.map((one) => one.stop()))
    expect(traffic.flatMap(({ failures }) => kindsOf(failures))).toEqual([])
    for (const [at, group] of groups.entries()) {
      const admitted = traffic.reduce((sum, one) => sum + one.admittedOf(at), 0)
      const left = LIMIT - admitted
      expect(await remaining(store, group)).toEqual(group.map(() => left))
      await spend(store, group, left)
    }
    expect(after.MOVED - before.MOVED).toBeGreaterThan(0)
    const refreshes = after.refreshes - before.refreshes
    expect(refreshes).toBeLessThanOrEqual(after.MOVED - before.MOVED)
  })

  it('no group has more than the limit, or less without a failure, at a takeover', async () => {
    const { groups } = groupsOn(
      'roles',
      Array.from({ length: 16_384 }, (_, slot) => slot),
    )
    const store = await useIt('roles', groups)
    for (const replica of cluster.replicas) await promote(replica)
    await Promise.all(traffic.map((one) => one.stop()))
    await cluster.untilOk()
    const failures = traffic.flatMap((one) => one.failures)
    let missing = 0
    for (const [at, group] of groups.entries()) {
      const admitted = traffic.reduce((sum, one) => sum + one.admittedOf(at), 0)
      const [left = Number.NaN, ...others] = await remaining(store, group)
      expect(others).toEqual(others.map(() => left))
      expect(left).toBeLessThanOrEqual(LIMIT - admitted)
      missing += LIMIT - admitted - left
      await spend(store, group, left)
    }
    // Until all nodes agree on the master they refuse requests, and clients drop requests on
    // connections that they abandon. A dropped request may have been counted once.
    expect(failures.filter(({ code }) => code === 'store-misconfigured')).toEqual([])
    const dropped = failures.filter(({ code }) => code !== 'store-failed')
    expect(missing).toBeLessThanOrEqual(dropped.length)
  })
})

/** Traffic of every client for all groups; the store is that of the first client. */
async function useIt(prefix: string, groups: readonly Counter[][]): Promise<Store> {
  connections = await Promise.all(patientClientKinds.map((kind) => kind.cluster(cluster)))
  const stores = connections.map(({ client }) =>
    redisStore(client, { prefix, timeoutMs: PATIENCE_MS }),
  )
  traffic = stores.map((store) => new Traffic(store, groups))
  const nowMs = performance.now()
  await Promise.all(traffic.map((one) => one.untilAnsweredAfter(nowMs)))
  return stores[0] as Store
}

/** Groups whose keys are in the given slots, and the slots to move, those of the groups first. */
function groupsOn(prefix: string, allowed: readonly number[]) {
  const keys = new RedisKeys(prefix, bucketTags(BUCKETS_DEFAULT))
  const groups: Counter[][] = []
  const slots = new Set<number>()
  for (let at = 0; groups.length < 2 * GROUPS; at += 1) {
    const within = `org ${at}`
    const org = { name: 'org', key: within, limit: bucket, within }
    const user = { name: 'user', key: `user ${at}`, limit: window, within }
    const address = { name: 'address', key: `address ${at}`, limit: bucket, within }
    const single = { name: 'single', key: `client ${at}`, limit: bucket }
    const group = groups.length < GROUPS ? [org, user, address] : [single]
    const slot = slotOf(keys.ofCounter(group[0] as Counter))
    if (!allowed.includes(slot)) continue
    groups.push(group)
    slots.add(slot)
  }
  return { groups, slots: [...new Set([...slots, ...allowed])].slice(0, SLOTS_MOVED) }
}

async function firstSlots(master: RedisClusterNode): Promise<number[]> {
  const ranges = await master.command('CLUSTER', 'SLOTS')
  const own = Array.isArray(ranges) && ranges.find(([, , [, , id]]) => id === master.id)
  if (!own) throw new Error('the master has slots')
  return Array.from({ length: own[1] - own[0] + 1 }, (_, at) => own[0] + at)
}

/** Spends all units that are left. */
async function spend(store: Store, group: readonly Counter[], left: number): Promise<void> {
  const rest = await store.charge(
    group.map((counter) => ({ ...counter, cost: left })),
    'all',
  )
  expect(rest.map(({ allowed, remaining }) => [allowed, remaining])).toEqual(
    group.map(() => [true, 0]),
  )
  const more = await store.charge(
    group.map((counter) => ({ ...counter, cost: 1 })),
    'all',
  )
  expect(more.map(({ allowed }) => allowed)).toEqual(group.map(() => false))
}

/** Redirects and slot queries of clients, summed over all nodes. */
async function statistics() {
  const texts = await Promise.all(
    cluster.nodes.map(async (node) => String(await node.command('INFO', 'everything'))),
  )
  const sum = (pattern: RegExp) =>
    texts.reduce((total, text) => total + Number(pattern.exec(text)?.[1] ?? 0), 0)
  return {
    MOVED: sum(/errorstat_MOVED:count=(\d+)/),
    ASK: sum(/errorstat_ASK:count=(\d+)/),
    TRYAGAIN: sum(/errorstat_TRYAGAIN:count=(\d+)/),
    refreshes: sum(/cmdstat_cluster\|slots:calls=(\d+)/),
  }
}

/** A manual failover, as before maintenance: the replica takes over all data of the master. */
async function promote(replica: RedisClusterNode): Promise<void> {
  let askedMs = Number.NEGATIVE_INFINITY
  await until('the replica is the master', async () => {
    const masters = await cluster.currentMasters()
    if (performance.now() - askedMs > FAILOVER_MS && !masters.some(({ id }) => id === replica.id)) {
      await replica.command('CLUSTER', 'FAILOVER')
      askedMs = performance.now()
    }
    return masters.some(({ id }) => id === replica.id)
  })
}
